// Keeps a fault of one part of a page within it: the rest of the page, and what was typed there, stays.

import { Component, type ReactNode } from "react";

interface Props {
  /** What the part shows. It is tried again as soon as this is another object. */
  readonly of: unknown;
  readonly fallback: ReactNode;
  readonly children: ReactNode;
}

interface State {
  readonly failed?: unknown;
}

export class Boundary extends Component<Props, State> {
  override state: State = {};

  static getDerivedStateFromError(failed: unknown): State {
    return { failed };
  }

  override componentDidUpdate({ of: before }: Props): void {
    if (before !== this.props.of && "failed" in this.state) this.setState({ failed: undefined });
  }

  override render(): ReactNode {
    return this.state.failed === undefined ? this.props.children : this.props.fallback;
  }
}
