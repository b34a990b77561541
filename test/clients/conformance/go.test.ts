import { goDriver } from "../go-driver.ts";
import { isHeldAgainstAllCases } from "./conformance.ts";

isHeldAgainstAllCases(goDriver);
