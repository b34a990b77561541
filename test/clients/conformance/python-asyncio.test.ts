import { pythonAsyncioDriver } from "../python-driver.ts";
import { isHeldAgainstAllCases } from "./conformance.ts";

isHeldAgainstAllCases(pythonAsyncioDriver);
