import "uplot/dist/uPlot.min.css";
import "./report.css";
import { embedded } from "./data";
import { live } from "./live";
import { startTheme } from "./theme";
import { View } from "./view";

// One script for the report, which holds its page, and for the live page, which
// fetches them.
startTheme();
const page = embedded();
if (page) new View().show(page);
else void live();
