import { currentTheme, setTheme } from "./theme";

// onPaper makes the page fit for paper while it is printed: light, unfolded,
// and whatever fit does. It returns what ends that.
export function onPaper(fit: (on: boolean) => void): () => void {
  let chosen: string | undefined;
  let folded: HTMLDetailsElement[] = [];
  const before = () => {
    chosen = document.documentElement.dataset.theme;
    if (currentTheme() === "dark") setTheme("light");
    folded = [...document.querySelectorAll<HTMLDetailsElement>("details:not([open])")];
    folded.forEach((d) => (d.open = true));
    fit(true);
  };
  const after = () => {
    folded.forEach((d) => (d.open = false));
    setTheme(chosen);
    fit(false);
  };
  addEventListener("beforeprint", before);
  addEventListener("afterprint", after);
  return () => {
    removeEventListener("beforeprint", before);
    removeEventListener("afterprint", after);
  };
}
