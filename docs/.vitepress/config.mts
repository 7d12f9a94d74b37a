import { defineConfig } from "vitepress";

// The site of `make docs`. A link that leads nowhere ends the build.
export default defineConfig({
  title: "windtunnel",
  description: "A wind tunnel for Kubernetes control planes",
  lang: "en",
  cleanUrls: true,
  lastUpdated: false,
  // Links out of docs/ are to files of the repository, which the site does not
  // have; the test of the documentation looks whether they are there.
  ignoreDeadLinks: [/^(\.\/)?\.\.\//],
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
        text: "Begin",
        items: [
          { text: "First flight", link: "/first-flight" },
          { text: "Concepts", link: "/concepts" },
          { text: "Recipes", link: "/recipes" },
          { text: "Safety", link: "/safety" },
          { text: "Many clusters", link: "/clusters" },
          { text: "Measuring a path", link: "/network" },
          { text: "Hollow clusters", link: "/hollow" },
          { text: "Workers", link: "/workers" },
          { text: "How to read a report", link: "/reading-a-report" },
        ],
      },
      {
        text: "Coming from",
        items: [
          { text: "ClusterLoader2", link: "/coming-from-clusterloader2" },
          { text: "kube-burner", link: "/coming-from-kube-burner" },
          { text: "kwok", link: "/coming-from-kwok" },
        ],
      },
      {
        text: "Do",
        items: [
          { text: "Compare two variants", link: "/comparing" },
          { text: "How far does it go?", link: "/search" },
          { text: "From build to build", link: "/history" },
          { text: "Find what limits the plane", link: "/diagnosis" },
          { text: "Test your operator in CI", link: "/testing-your-operator" },
          { text: "Reproduce the KubeVirt density test", link: "/reproducing-kubevirt-density" },
          { text: "Reproduce the KubeVela assessment", link: "/reproducing-kubevela-assessment" },
          { text: "Reproduce the KubeEdge 100,000 edges test", link: "/reproducing-kubeedge-100k" },
          { text: "Reproduce the Kosmos density test", link: "/reproducing-kosmos" },
        ],
      },
      {
        text: "Look up",
        items: [
          { text: "The scenario language", link: "/scenario" },
          { text: "SLIs and their definitions", link: "/slis" },
          { text: "How windtunnel measures", link: "/measurement" },
          { text: "What measurements cannot tell", link: "/limits" },
          { text: "Lifecycles of objects", link: "/lifecycles" },
          { text: "Records and their columns", link: "/records" },
          { text: "Results in other tools", link: "/exports" },
          { text: "Dependencies", link: "/dependencies" },
        ],
      },
    ],
  },
});
