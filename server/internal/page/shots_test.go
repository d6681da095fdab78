//go:build unix

package page_test

import (
	"encoding/base64"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/carillonhq/carillon/server/internal/server"
)

var (
	shotsOf  = flag.String("shots-of", "", "take pictures of the page of the node at this `url`")
	shotsTo  = flag.String("shots-to", ".", "`folder` for them")
	roomsTo  = flag.String("rooms-to", "", "`folder` for pictures of each room, of a node that the test furnishes")
	nameless = regexp.MustCompile(`[^a-z0-9]+`)
)

// TestPicturesOfEachRoom takes those of docs/page/rooms, and writes the page of docs that shows them.
func TestPicturesOfEachRoom(t *testing.T) {
	if *roomsTo == "" {
		t.Skip("no -rooms-to")
	}
	b := launch(t)
	n := start(t, server.Config{})
	n.furnish()
	p := b.open(t, n.url, 1440, 900)
	p.visit("/dead")
	p.sees("main", "imports/file") // from here on it is dead
	p.visit("/jobs/default/thumbnails/scene")
	p.sees("main", "No worker serves")
	var page strings.Builder
	page.WriteString("# Each room of the page\n\nMade by `go test ./server/internal/page -run TestPicturesOfEachRoom -rooms-to FOLDER`: " +
		"1440 and 390 wide,\nlight and dark.\n")
	for _, r := range roomsOf(n) {
		name := strings.Trim(nameless.ReplaceAllString(lower(r.name), "-"), "-")
		fmt.Fprintf(&page, "\n## %s\n", strings.ToUpper(r.name[:1])+r.name[1:])
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			for _, wide := range []int{1440, 390} {
				p.resize(wide, 900)
				p.visit(r.path)
				p.wait(`document.querySelector("main").textContent.toLowerCase().includes(` + js(lower(r.sees)) + `)`)
				p.wait(`!document.querySelector(".loading")`)
				file := fmt.Sprintf("%s-%s-%d.webp", name, scheme, wide)
				p.shoot(filepath.Join(*roomsTo, file), object{"format": "webp", "quality": 55})
				fmt.Fprintf(&page, "\n![%s, %s, %d wide](%s)\n", r.name, scheme, wide, file)
			}
		}
	}
	p.must(os.WriteFile(filepath.Join(*roomsTo, "README.md"), []byte(page.String()), 0o600))
}

// TestPictures takes those that people look at: each room, light and dark, on a wide screen and on a phone.
func TestPictures(t *testing.T) {
	if *shotsOf == "" {
		t.Skip("no -shots-of")
	}
	b := launch(t)
	p := b.open(t, *shotsOf, 1440, 900)
	for _, s := range []struct {
		name, path string
		high       int // of a wide picture
	}{
		{"overview", "/", 760}, {"jobs", "/jobs", 900}, {"job", "/jobs/default/webhooks/partner-2", 1100},
		{"job-waits", "/jobs/default/etl/publish", 1000}, {"job-limited", "/jobs/default/sync/orders", 900},
		{"runs", "/runs?status=dead,failed,retrying", 900}, {"queues", "/queues", 500}, {"dead", "/dead", 500},
		{"workers", "/workers", 400}, {"graph", "/graph", 700}, {"cluster", "/cluster", 700}, {"settings", "/settings", 900},
		{"calendars", "/calendars", 500}, {"backfills", "/backfills?job=sync%2Fada%2Forders", 500},
		{"schedule", "/schedule?schedule=0+9+*+*+MON-FRI&zone=Europe%2FBerlin&from=2027-03-25", 900},
		{"new", "/new?schedule=0+9+*+*+MON-FRI&zone=Europe%2FBerlin", 1500}, {"edit", "/edit?job=webhooks%2Fpartner-2", 2200},
	} {
		for _, scheme := range []string{"light", "dark"} {
			p.scheme(scheme)
			p.resize(1440, s.high)
			p.picture(s.path, s.name+"-"+scheme)
			p.resize(390, 844)
			p.picture(s.path, s.name+"-"+scheme+"-phone")
		}
	}
}

// picture visits an address and writes what is in sight once all answers are there, and drawn.
func (p *tab) picture(path, name string) {
	p.t.Helper()
	p.visit(path)
	p.wait(`!document.querySelector(".loading") && document.querySelector(".live.live")`)
	if path == "/" {
		p.wait(`document.querySelector(".band .next")`)
	}
	p.shoot(filepath.Join(*shotsTo, name+".png"), object{"format": "png"})
}

// shoot writes what is in sight to a file, once it has been drawn.
func (p *tab) shoot(file string, how object) {
	p.t.Helper()
	p.must(p.eval(`new Promise((done) => setTimeout(done, 1500))`, nil))
	var shot struct{ Data string }
	p.do("Page.captureScreenshot", how, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	p.must(err)
	p.must(os.WriteFile(file, picture, 0o600))
}
