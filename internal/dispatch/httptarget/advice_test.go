package httptarget

import (
	"net/netip"
	"testing"
)

func TestWhatWillBeRefusedIsKnown(t *testing.T) {
	d := New(Options{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	t.Cleanup(func() { _ = d.Close() })
	for address, refused := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:80": true, "[::1]:80": true, "[::1]": true, "localhost:9": true, "a.localhost": true, "LOCALHOST.": true,
		"169.254.169.254": true, "[::ffff:10.2.0.1]:1": true, "10.1.2.3:80": false, "8.8.8.8": false, "example.com:443": false, "": false,
		"2130706433": false,
	} {
		if why := d.Refuses(address); (why != "") != refused {
			t.Errorf("%s: %q", address, why)
		}
	}
	loop := New(Options{Allow: loopback})
	t.Cleanup(func() { _ = loop.Close() })
	if why := loop.Refuses("localhost:80"); why != "" {
		t.Errorf("allowed: %s", why)
	}
}
