// Sets the colours that the reader has chosen before anything is drawn: see src/theme.tsx.
try {
  const theme = localStorage.getItem("carillon-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch {
  // A browser that keeps nothing shows what the system has.
}
