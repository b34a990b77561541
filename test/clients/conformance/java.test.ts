import { javaDriver } from "../java-driver.ts";
import { isHeldAgainstAllCases } from "./conformance.ts";

isHeldAgainstAllCases(javaDriver);
