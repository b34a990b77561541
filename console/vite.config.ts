// How the console is built, and how `npm run console` serves it while somebody works on it: the control plane answers the API then.

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

const controlPlane = process.env["SLUICE_CONTROL_URL"] ?? "http://127.0.0.1:8081";

export default defineConfig({
  root: import.meta.dirname,
  plugins: [react()],
  build: { outDir: "dist", emptyOutDir: true, assetsInlineLimit: 0, target: "es2022", chunkSizeWarningLimit: 700 },
  server: {
    host: "127.0.0.1",
    port: 8083,
    proxy: { "/api": controlPlane, "/readyz": controlPlane, "/docs": controlPlane },
  },
});
