import { pythonDriver } from "../python-driver.ts";
import { isHeldAgainstAllCases } from "./conformance.ts";

isHeldAgainstAllCases(pythonDriver);
