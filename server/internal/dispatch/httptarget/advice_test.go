package httptarget

import (
	"net/netip"
	"testing"
)

func TestWhatWillBeRefusedIsKnown(t *testing.T) {
	d := New(Options{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	t.Cleanup(func() { _ = d.Close() })
	for address, refused := range map[string]bool{
		"127.0.0.1": true, "127.0.0.1:80": true, "[::1]:80": true, "[::1]": true, "localhost:9": true,
		"a.localhost": true, "LOCALHOST.": true, "169.254.169.254": true, "[::ffff:10.2.0.1]:1": true,
		"10.1.2.3:80": false, "8.8.8.8": false, "example.com:443": false, "": false, "2130706433": false,
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

// TestAnAddressThatWasGivenIsNamed: who puts a job with an address is told which one is refused and why; a
// name is not looked up.
func TestAnAddressThatWasGivenIsNamed(t *testing.T) {
	target := New(Options{Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}})
	t.Cleanup(func() { _ = target.Close() })
	for host, want := range map[string]string{
		"10.2.3.4:80":          "address 10.2.3.4 is refused: private (an operator can allow it with --allow-target 10.2.3.4/32)",
		"[fe80::1]:443":        "address fe80::1 is refused: link-local (an operator can allow it with --allow-target fe80::1/128)",
		"localhost:80":         "address ::1 is refused: loopback (an operator can allow it with --allow-target ::1/128)",
		"10.1.2.3:80":          "",
		"8.8.8.8:80":           "",
		"internal.example.com": "",
	} {
		if got := target.Refuses(host); got != want {
			t.Errorf("%s: %q, want %q", host, got, want)
		}
	}
}
