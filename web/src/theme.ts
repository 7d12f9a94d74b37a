// Light and dark: the system's choice until the reader makes one.

const key = "windtunnel-theme";
const listeners = new Set<() => void>();

// onTheme calls f whenever colours have changed. It returns what ends that.
export function onTheme(f: () => void): () => void {
  listeners.add(f);
  return () => listeners.delete(f);
}

// colour reads a colour of the style.
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

export function setTheme(theme: string | undefined): void {
  const root = document.documentElement;
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  listeners.forEach((f) => f());
}

export function currentTheme(): string {
  const chosen = document.documentElement.dataset.theme;
  return chosen ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");
}

export function startTheme(): void {
  const button = document.getElementById("theme") as HTMLButtonElement;
  const label = () => {
    button.textContent = currentTheme() === "dark" ? "Light" : "Dark";
    button.setAttribute("aria-label", "Switch to the " + button.textContent.toLowerCase() + " theme");
  };
  const stored = remembered();
  if (stored) document.documentElement.dataset.theme = stored;
  label();
  onTheme(label);
  button.hidden = false;
  button.addEventListener("click", () => {
    const next = currentTheme() === "dark" ? "light" : "dark";
    remember(next);
    setTheme(next);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => listeners.forEach((f) => f()));
}

// Where a browser keeps nothing for files from disk, the choice lasts as long as the page.
function remembered(): string | undefined {
  try {
    const v = localStorage.getItem(key);
    return v === "dark" || v === "light" ? v : undefined;
  } catch {
    return undefined;
  }
}

function remember(theme: string): void {
  try {
    localStorage.setItem(key, theme);
  } catch {
    /* as above */
  }
}
