import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { defineConfig } from "vite";

// licences writes the licences of the packages of which something is in the output, for THIRD_PARTY_LICENSES.txt.
function licences() {
  return {
    name: "licences",
    generateBundle(_, bundle) {
      const folders = new Set();
      for (const chunk of Object.values(bundle)) {
        for (const id of chunk.moduleIds ?? []) {
          const found = /^(.*\/node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(id);
          if (found) folders.add(found[1]);
        }
      }
      let text = "";
      for (const folder of [...folders].sort()) {
        const { name, version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
        text += `npm ${name} v${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
      }
      this.emitFile({ type: "asset", fileName: "LICENSES.txt", source: text });
    },
  };
}

// The names of the output are stable, so that a change of the page is a change of the same few files. It loads nothing but
// these: no polyfill that would put a script into the document, no source map.
export default defineConfig({
  root: dirname(new URL(import.meta.url).pathname),
  base: "/",
  plugins: [licences()],
  esbuild: { jsx: "automatic", jsxImportSource: "preact", legalComments: "none" },
  build: {
    outDir: process.env.CARILLON_PAGE_OUT ?? "../dist",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: false,
    reportCompressedSize: false,
    assetsInlineLimit: 0,
    rollupOptions: {
      output: {
        entryFileNames: "page/page.js",
        chunkFileNames: "page/[name].js",
        assetFileNames: "page/[name][extname]",
      },
    },
  },
});
