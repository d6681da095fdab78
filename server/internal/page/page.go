// Package page is the page in the browser: static files, which know nothing and call the public REST API
// from where they are shown.
//
// What is embedded is made of web/ (TypeScript) by Vite and committed, so that building a node needs nothing
// but Go:
//
//	cd server/internal/page/web && npm ci && npm run build
package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

//go:embed dist/index.html dist/page
var dist embed.FS

// policy lets the page load what is its own and call the node that it comes from: nothing inline, nothing
// evaluated, nothing from elsewhere, and no text that becomes markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; " +
	"require-trusted-types-for 'script'; trusted-types 'none'"

// index is the document at every address of the page.
const index = "index.html"

// file is what is served at one path.
type file struct {
	kind    string
	plain   []byte
	packed  []byte // by gzip; nil: it would not be shorter
	version string // of its content
}

// Page serves the page.
type Page struct{ files map[string]file }

// folder is where the files are that the document loads.
const folder = "/page/"

var once = sync.OnceValues(read)

// New returns the page. It fails if what was built into the program cannot be read.
func New() (*Page, error) {
	files, err := once()
	if err != nil {
		return nil, fmt.Errorf("page: %w", err)
	}
	return &Page{files: files}, nil
}

// read packs the files, by their paths below dist.
func read() (map[string]file, error) {
	files := map[string]file{}
	err := fs.WalkDir(dist, "dist", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		plain, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		packed, err := pack(plain)
		sum := sha256.Sum256(plain)
		files[strings.TrimPrefix(name, "dist/")] = file{kind: kind(name), plain: plain, packed: packed,
			version: base64.RawURLEncoding.EncodeToString(sum[:12])}
		return err
	})
	return files, err
}

// kinds do not depend on the machine, as those of package mime may.
var kinds = map[string]string{".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml"}

func kind(name string) string { return kinds[path.Ext(name)] }

func pack(plain []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil || b.Len() >= len(plain) {
		return nil, err
	}
	return b.Bytes(), nil
}

// Serves reports whether a request is for the page: for one of its files, or from somebody who reads pages
// and asks for an address that only the page knows. What else the node has at such an address comes first.
func (p *Page) Serves(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	if strings.HasPrefix(r.URL.Path, folder) {
		_, there := p.files[r.URL.Path[1:]]
		return there
	}
	return r.URL.Path == "/" || readsPages(r.Header.Get("Accept"))
}

// readsPages reports whether a header Accept names HTML, as those of browsers do where they open an address.
func readsPages(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		if kind, _, err := mime.ParseMediaType(part); err == nil && kind == "text/html" {
			return true
		}
	}
	return false
}

// ServeHTTP implements [http.Handler], for requests that it serves. A browser asks each time whether what it
// has is current, and is told without a body: the page is always that of the node.
func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, ok := p.files[strings.TrimPrefix(r.URL.Path, "/")]
	if !ok {
		f = p.files[index]
	}
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Cache-Control", "no-cache")
	header.Set("Vary", "Accept, Accept-Encoding")
	body, version := f.plain, f.version
	if f.packed != nil && takesGzip(r.Header.Get("Accept-Encoding")) {
		body, version = f.packed, f.version+"-gzip"
		header.Set("Content-Encoding", "gzip")
	}
	header.Set("ETag", `"`+version+`"`)
	if matches(r.Header.Get("If-None-Match"), version) {
		header.Del("Content-Encoding")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	header.Set("Content-Type", f.kind)
	header.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // the reader is gone if this fails
	}
}

func takesGzip(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, quality, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(name), "gzip") {
			q, ok := strings.CutPrefix(strings.TrimSpace(quality), "q=")
			weight, err := strconv.ParseFloat(q, 64)
			return !ok || err == nil && weight > 0
		}
	}
	return false
}

// matches reports whether a header If-None-Match has a version.
func matches(header, version string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		if strings.TrimPrefix(strings.TrimSpace(tag), "W/") == `"`+version+`"` {
			return true
		}
	}
	return false
}
