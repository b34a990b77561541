import { typescriptDriver } from "../typescript-driver.ts";
import { isHeldAgainstAllCases } from "./conformance.ts";

isHeldAgainstAllCases(typescriptDriver);
