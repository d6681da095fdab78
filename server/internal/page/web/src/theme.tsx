// Light, dark, or as the system is: what the reader has chosen is kept by the browser, and set before anything is drawn by theme.js, which
// the document loads first.
import { useState } from "preact/hooks";

const key = "carillon-theme";
const themes = { system: "\u25d0", light: "\u2600\ufe0e", dark: "\u263e\ufe0e" };
type Theme = keyof typeof themes;
const order = Object.keys(themes) as Theme[];

function chosen(): Theme {
  const theme = document.documentElement.dataset.theme;
  return theme === "light" || theme === "dark" ? theme : "system";
}

function choose(theme: Theme) {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  try {
    if (theme === "system") localStorage.removeItem(key);
    else localStorage.setItem(key, theme);
  } catch {
    // A browser that keeps nothing forgets it with the tab.
  }
}

export function ThemeSwitch() {
  const [theme, set] = useState(chosen);
  const next = order[(order.indexOf(theme) + 1) % order.length]!;
  const words = (t: Theme) => (t === "system" ? "as the system is" : t);
  const says = `Colours: ${words(theme)}. Change to ${words(next)}`;
  return (
    <button type="button" class="small theme" aria-label={says} title={says} onClick={() => {
      choose(next);
      set(next);
    }}><span aria-hidden="true">{themes[theme]}</span></button>
  );
}
