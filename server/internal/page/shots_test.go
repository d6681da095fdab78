//go:build unix

package page_test

import (
	"encoding/base64"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var (
	shotsOf = flag.String("shots-of", "", "take pictures of the page of the node at this `url`")
	shotsTo = flag.String("shots-to", ".", "`folder` for them")
)

// TestPictures takes those that people look at.
func TestPictures(t *testing.T) {
	if *shotsOf == "" {
		t.Skip("no -shots-of")
	}
	b := launch(t)
	p := b.open(t, *shotsOf, 1440, 900)
	for _, s := range []struct {
		name, path, scheme string
		wide, high         int
	}{
		{"overview", "/", "light", 1440, 760}, {"overview-dark", "/", "dark", 1440, 760}, {"overview-phone", "/", "dark", 390, 844},
		{"jobs", "/jobs", "light", 1440, 900}, {"jobs-phone", "/jobs", "light", 390, 844},
		{"job", "/jobs/default/webhooks/partner-2", "dark", 1440, 1100}, {"job-phone", "/jobs/default/webhooks/partner-2", "light", 390, 844},
		{"job-waits", "/jobs/default/etl/publish", "light", 1440, 1200},
		{"runs", "/runs?status=dead,failed,retrying", "dark", 1440, 900}, {"queues", "/queues", "light", 1440, 500},
		{"dead", "/dead", "light", 1440, 500}, {"workers", "/workers", "dark", 1440, 400}, {"graph", "/graph", "light", 1440, 700},
		{"cluster", "/cluster", "dark", 1440, 700}, {"settings", "/settings", "light", 1440, 900}, {"calendars", "/calendars", "light", 1440, 500},
		{"schedule", "/schedule?schedule=30+2+*+*+*&zone=Europe%2FBerlin&from=2027-03-25T00:00:00Z", "light", 1440, 900},
		{"backfills", "/backfills?job=sync%2Fada%2Forders", "light", 1440, 500},
	} {
		p.scheme(s.scheme)
		p.resize(s.wide, s.high)
		p.visit(s.path)
		p.wait(`!document.querySelector(".loading") && document.querySelector(".live.live")`)
		if strings.HasPrefix(s.name, "overview") {
			p.wait(`document.querySelector(".band .next")`)
		}
		p.must(p.eval(`new Promise((done) => setTimeout(done, 1500))`, nil)) // all answers are there, and drawn
		var shot struct{ Data string }
		p.do("Page.captureScreenshot", object{"format": "png"}, &shot)
		picture, err := base64.StdEncoding.DecodeString(shot.Data)
		p.must(err)
		p.must(os.WriteFile(filepath.Join(*shotsTo, s.name+".png"), picture, 0o600))
	}
}
