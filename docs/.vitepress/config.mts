import { defineConfig } from "vitepress";

// The site of `make docs`. A link that leads nowhere ends the build.
export default defineConfig({
  title: "windtunnel",
  description: "A wind tunnel for Kubernetes control planes",
  lang: "en",
  cleanUrls: true,
  lastUpdated: false,
  // GitHub shows README.md for a folder, the site index.html.
  rewrites: { "README.md": "index.md", ":folder/README.md": ":folder/index.md" },
  // Links out of docs/ are to files of the repository, which the site does not
  // have; a test looks whether they are there (TestLinksLeadSomewhere).
  ignoreDeadLinks: [/^(\.\/)?(\.\.\/)+(experiments|examples|planes|internal|README|CHANGELOG|CONTRIBUTING|ARCHITECTURE|SECURITY)/],
  // The pages are Markdown for readers of the repository as well: braces and
  // angle brackets in them are text, not the site's own language.
  markdown: {
    html: false,
    config(md) {
      const braces = (text: string) => text.replaceAll("{{", "&#123;&#123;").replaceAll("}}", "&#125;&#125;");
      for (const rule of ["text", "code_inline"] as const) {
        const render = md.renderer.rules[rule]!;
        md.renderer.rules[rule] = (...args) => braces(render(...args));
      }
    },
  },
  themeConfig: {
    search: { provider: "local" },
    outline: [2, 3],
    sidebar: [
      {
        text: "Start",
        items: [
          { text: "First run", link: "/start/first-run" },
          { text: "Read a report", link: "/start/reading-a-report" },
          { text: "Concepts", link: "/start/concepts" },
        ],
      },
      {
        text: "How-to",
        items: [
          { text: "Recipes", link: "/how-to/recipes" },
          { text: "Compare two variants", link: "/how-to/comparing" },
          { text: "Publish a scalability result", link: "/how-to/publishing" },
          { text: "Check somebody's result", link: "/how-to/verifying" },
          { text: "Make one page of many results", link: "/how-to/site" },
          { text: "Find the change that causes a regression", link: "/how-to/bisecting" },
          { text: "Answer the scalability questions", link: "/how-to/assessing" },
          { text: "Measure what feature gates cost", link: "/how-to/feature-gates" },
          { text: "Find the largest load", link: "/how-to/search" },
          { text: "Track results from build to build", link: "/how-to/builds" },
          { text: "Find the bottleneck", link: "/how-to/diagnosis" },
          { text: "Check an upgrade", link: "/how-to/upgrading" },
          { text: "Check writes", link: "/how-to/writes" },
          { text: "Send load by many clients", link: "/how-to/many-clients" },
          { text: "Test your operator", link: "/how-to/testing-your-operator" },
          { text: "Cost of a controller", link: "/how-to/client-costs" },
          { text: "Lifecycles of your objects", link: "/how-to/lifecycles" },
          { text: "Several workers", link: "/how-to/workers" },
          { text: "Many clusters", link: "/how-to/clusters" },
          { text: "In-memory clusters", link: "/how-to/hollow" },
          { text: "Network paths", link: "/how-to/network" },
          { text: "Come from ClusterLoader2", link: "/how-to/coming-from-clusterloader2" },
          { text: "Come from kube-burner", link: "/how-to/coming-from-kube-burner" },
          { text: "Come from kwok", link: "/how-to/coming-from-kwok" },
          { text: "Reproduce KubeVirt's report", link: "/how-to/reproducing-kubevirt-density" },
          { text: "Reproduce KubeVela's report", link: "/how-to/reproducing-kubevela-assessment" },
          { text: "Reproduce KubeEdge's report", link: "/how-to/reproducing-kubeedge-100k" },
          { text: "Reproduce Kosmos' report", link: "/how-to/reproducing-kosmos" },
        ],
      },
      {
        text: "Reference",
        items: [
          { text: "Scenario language", link: "/reference/scenario" },
          { text: "Exemplar objects", link: "/reference/exemplars" },
          { text: "SLIs", link: "/reference/slis" },
          { text: "Records", link: "/reference/records" },
          { text: "Run rules", link: "/reference/run-rules" },
          { text: "Format of bundles", link: "/reference/bundle" },
          { text: "Exports", link: "/reference/exports" },
          { text: "Safety", link: "/reference/safety" },
        ],
      },
      {
        text: "Background",
        items: [
          { text: "How windtunnel measures", link: "/background/measurement" },
          { text: "What measurements cannot tell", link: "/background/limits" },
          { text: "Dependencies", link: "/background/dependencies" },
          { text: "Design decisions", link: "/decisions/" },
          { text: "History", link: "/history/" },
        ],
      },
    ],
  },
});
