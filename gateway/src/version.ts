// The version of this gateway, as it tells it to the control plane.

export const version = "0.1.0";
