package httptarget

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
)

func TestGuard(t *testing.T) {
	refused := strings.FieldsSeq(`
		0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1 127.255.0.1
		168.63.129.16 169.254.169.254 169.254.170.2 172.16.0.1 172.31.255.255 192.0.0.8 192.0.0.192 192.0.2.1 192.88.99.1
		192.168.1.1 198.18.0.1 198.19.255.255 198.51.100.7 203.0.113.9 224.0.0.1 239.255.255.255 240.0.0.1 255.255.255.255
		:: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:10.1.2.3 ::ffff:169.254.169.254 ::ffff:0:127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::a00:1
		100::1 2001::1 2001:0:4136:e378:8000:63bf:3fff:fdd2 2001:2::1 2001:10::1 2001:20::1 2001:db8::1 2002:7f00:1::1
		2002:a00:1::1 3fff::1 4000::1 5f00::1 fc00::1 fd00:ec2::254 fd12:3456::1 fe80::1 fe80::1%eth0 fec0::1 ff02::1 ff0e::1`)
	for a := range refused {
		err := guard{}.control("tcp", netip.AddrPortFrom(netip.MustParseAddr(a), 80).String(), nil)
		if _, ok := errors.AsType[*RefusedError](err); !ok {
			t.Errorf("%s may be dialled (%v)", a, err)
		}
	}
	public := strings.FieldsSeq(`1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.1
		168.63.129.17 169.253.255.255 172.15.255.255 172.32.0.0 192.0.1.1 192.167.255.255 198.17.255.255 198.20.0.0 223.255.255.255
		::ffff:8.8.8.8 2001:4860:4860::8888 2606:4700:4700::1111 2a00:1450::1`)
	for a := range public {
		if err := (guard{}).control("tcp", netip.AddrPortFrom(netip.MustParseAddr(a), 443).String(),
			nil); err != nil {
			t.Errorf("%s is refused: %v", a, err)
		}
	}
	if (guard{}).control("tcp", "nonsense", nil) == nil {
		t.Error("nonsense may be dialled")
	}
}

func TestGuardAllows(t *testing.T) {
	g := guard{[]netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00::/8"),
		netip.MustParsePrefix("fe80::/64")}}
	for a, want := range map[string]bool{"10.1.2.3": true, "::ffff:10.1.2.3": true, "10.2.0.1": false,
		"fd00::1": true, "fc00::1": false,
		"64:ff9b::a01:203": false, "fe80::1%eth0": true, "fe80:1::1%eth0": false} {
		if err := g.refuses(netip.MustParseAddr(a)); (err == nil) != want {
			t.Errorf("%s: %v", a, err)
		}
	}
	err := guard{}.refuses(netip.MustParseAddr("10.1.2.3"))
	if err == nil || err.Error() != "the target's address is refused: it is not a public one (an operator can allow it with --allow-target)" {
		t.Error(err)
	}
}

func TestRefusedIsPermanent(t *testing.T) {
	for _, to := range []string{"http://127.0.0.1:9/", "http://[::1]:9/", "https://169.254.169.254/latest",
		"http://[::ffff:127.0.0.1]:9/",
		"http://localhost:9/", "http://anything.example.com:9/"} {
		d := open(t, New(Options{Resolver: names(t, "127.0.0.1")}))
		r := d.do(t, newDelivery(1, to))
		if r.Outcome != 0 || !r.Permanent || !strings.Contains(r.Message, "--allow-target") {
			t.Errorf("%s: %+v", to, r.Result)
		}
	}
}

// TestOddNumbers tells that what only C libraries take for an address is a name here, which nobody has.
func TestOddNumbers(t *testing.T) {
	for _, to := range []string{"http://0x7f.1:9/", "http://2130706433:9/", "http://127.1:9/",
		"http://0177.0.0.1:9/"} {
		d := open(t, New(Options{Resolver: names(t, "127.0.0.1")}))
		if r := d.do(t, newDelivery(1, to)); r.Outcome != 0 ||
			(!r.Permanent && !strings.HasPrefix(r.Message, "DNS: ")) {
			t.Errorf("%s: %+v", to, r.Result)
		}
	}
}

// TestRebinding has a resolver that gives a public address first and loopback ever after: whatever was looked
// up before, the address dialled is the one that is judged.
func TestRebinding(t *testing.T) {
	resolver := names(t, "203.0.114.1", "127.0.0.1")
	first, err := resolver.LookupNetIP(context.Background(), "ip4", "rebind.example.com.")
	if err != nil || len(first) != 1 || first[0].Unmap() != netip.MustParseAddr("203.0.114.1") {
		t.Fatal(first, err)
	}
	d := open(t, New(Options{Resolver: resolver}))
	r := d.do(t, newDelivery(1, "http://rebind.example.com:9/"))
	if !r.Permanent || !strings.Contains(r.Message, "is refused") || strings.Contains(r.Message, "127.0.0.1") {
		t.Fatalf("%+v", r.Result)
	}
}

// names is a resolver whose server, in memory, answers lookups of IPv4 addresses in order, the last one for
// ever.
func names(t *testing.T, answers ...string) *net.Resolver {
	t.Helper()
	var mu sync.Mutex
	next := func() netip.Addr {
		mu.Lock()
		defer mu.Unlock()
		a := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		return netip.MustParseAddr(a)
	}
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe() // a stream: messages have their length in front, as over TCP
		go serveNames(server, next)
		return client, nil
	}}
}

func serveNames(c net.Conn, next func() netip.Addr) {
	defer c.Close()
	for {
		buf := make([]byte, 2048)
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		q := buf[2:n]
		end := 12
		for q[end] != 0 {
			end += 1 + int(q[end])
		}
		kind := binary.BigEndian.Uint16(q[end+1:])
		reply := append([]byte{q[0], q[1], 0x84, 0, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end+5]...)
		if kind == 1 {
			a := next().As4()
			reply[7] = 1
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4)
			reply = append(reply, a[:]...)
		}
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
			return
		}
	}
}
