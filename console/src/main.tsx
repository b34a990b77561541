// Starts the console in the page.

import { createRoot } from "react-dom/client";
import { Console } from "./app/console.tsx";
import "./app/look.css";

createRoot(document.getElementById("console") as HTMLElement).render(<Console />);
