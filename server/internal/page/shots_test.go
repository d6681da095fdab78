//go:build unix

package page_test

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"testing"
)

var (
	shotsOf = flag.String("shots-of", "", "take pictures of the page of the node at this `url`")
	shotsTo = flag.String("shots-to", ".", "`folder` for them")
)

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
	p.must(p.eval(`new Promise((done) => setTimeout(done, 1500))`, nil))
	var shot struct{ Data string }
	p.do("Page.captureScreenshot", object{"format": "png"}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	p.must(err)
	p.must(os.WriteFile(filepath.Join(*shotsTo, name+".png"), picture, 0o600))
}
