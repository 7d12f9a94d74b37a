import "uplot/dist/uPlot.min.css";
import "./report.css";
import { embedded } from "./data";
import { live } from "./live";
import { showSite } from "./site";
import { sortable } from "./tables";
import { startTheme } from "./theme";
import { View } from "./view";

// One script for the report, which holds its page, and for the live page, which
// fetches them. A page of many runs has no charts over a run's time.
startTheme();
const page = embedded();
if (page?.site) {
  sortable(document);
  showSite(page.site);
} else if (page) new View().show(page);
else void live();
