import { readdirSync } from "node:fs";
import { defineConfig } from "vite";

// The unit tests with what they test, as modules that node --test runs.
export default defineConfig({
  build: {
    ssr: true,
    outDir: "node_modules/.test",
    emptyOutDir: true,
    rolldownOptions: { input: readdirSync("test").map((name) => "test/" + name) },
  },
  logLevel: "warn",
});
