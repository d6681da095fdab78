package amqp

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rabbitmq/amqp091-go"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/testing/realserver"
)

// TestRabbitMQ has all that needs a broker, since one takes seconds to start.
func TestRabbitMQ(t *testing.T) {
	certificate, key, roots := realserver.Authority(t)
	secure := realserver.Port(t)
	r := &rig{RabbitMQ: realserver.StartRabbitMQ(t, fmt.Sprint("max_message_size = ", maxBytes),
		fmt.Sprint("listeners.ssl.1 = 127.0.0.1:", secure), "ssl_options.cacertfile = "+certificate,
		"ssl_options.certfile = "+certificate, "ssl_options.keyfile = "+key, "ssl_options.verify = verify_peer",
		"ssl_options.fail_if_no_peer_cert = false", "ssl_cert_login_from = common_name",
		"auth_mechanisms.1 = PLAIN", "auth_mechanisms.2 = EXTERNAL")}
	r.Eval(t, `U = fun(N) -> rabbit_auth_backend_internal:add_user(N, <<"secret">>, <<"test">>) end,
		[U(N) || N <- [<<"reader">>, <<"topical">>, <<"publisher">>]],
		P = fun(N, Write) -> rabbit_auth_backend_internal:set_permissions(
			N, <<"/">>, <<>>, Write, <<".*">>, <<"test">>) end,
		P(<<"reader">>, <<"^$">>), P(<<"topical">>, <<".*">>), P(<<"publisher">>, <<".*">>),
		rabbit_auth_backend_internal:set_topic_permissions(<<"topical">>, <<"/">>,
			<<"TestRabbitMQ.topics.exchange">>, <<"^good">>, <<".*">>, <<"test">>).`)
	r.begin(t)
	t.Run("order", func(t *testing.T) { testOrder(t, r) })
	t.Run("form", func(t *testing.T) { testForm(t, r) })
	t.Run("nowhere", func(t *testing.T) { testNowhere(t, r) })
	t.Run("returns", func(t *testing.T) { testReturns(t, r) })
	t.Run("gone", func(t *testing.T) { testExchangeGone(t, r) })
	t.Run("large", func(t *testing.T) { testTooLarge(t, r) })
	t.Run("small", func(t *testing.T) { testTooLargeAmongOthers(t, r) })
	t.Run("rights", func(t *testing.T) { testRights(t, r) })
	t.Run("topics", func(t *testing.T) { testTopicRights(t, r) })
	t.Run("full", func(t *testing.T) { testFullQueue(t, r) })
	t.Run("channels", func(t *testing.T) { testManyTargets(t, r) })
	t.Run("slow", func(t *testing.T) { testSlowQueue(t, r) })
	t.Run("no more connections", func(t *testing.T) { testNoMoreConnections(t, r) })
	t.Run("TLS", func(t *testing.T) {
		authority, err := tls.LoadX509KeyPair(certificate, key)
		must(t, err)
		testTLS(t, r, fmt.Sprint("127.0.0.1:", secure), roots, certificateOf(t, authority, "publisher"))
	})
	t.Run("blocked", func(t *testing.T) { testBlocked(t, r) })
	t.Run("flow", func(t *testing.T) { testFlow(t, r) })
	t.Run("away", func(t *testing.T) { testAway(t, r) })
	t.Run("addresses", func(t *testing.T) { testAddresses(t, r) })
	t.Run("cut", func(t *testing.T) { testCut(t, r) })
	t.Run("together", func(t *testing.T) { // they mostly wait
		for name, test := range map[string]func(*testing.T, *rig){"login": testLogin, "silence": testSilence,
			"stuck": testStuck, "deaf": testDeaf, "close": testClose, "late": testLate, "blame": testBlame} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, r)
			})
		}
	})
	t.Run("kill", func(t *testing.T) { testKill(t, r) })
}

// Messages of one target arrive in order, and done is called once for each.
func testOrder(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	c := client(t, r.options())
	ms := many("", queue, 3000)
	var all []*calls
	for batch := range slices.Chunk(ms, 1000) {
		all = append(all, start(t.Context(), t, c, batch))
	}
	for _, a := range all {
		want(t, a.wait(), kinds{acknowledged: 1000})
	}
	got := ids(r.drain(t, queue))
	if len(got) != len(ms) || !slices.IsSorted(got) {
		t.Errorf("%d messages arrived, in order: %v; want %d", len(got), slices.IsSorted(got), len(ms))
	}
}

// What a consumer sees.
func testForm(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	m := message("", queue, "0001", 0)
	m.Data = []byte(`{"a":1}`)
	m.Headers = []broker.Header{{Name: "ce-id", Value: "0001"}, {Name: "ce-type", Value: "run"},
		{Name: "ce-time", Value: "2026-11-28T13:00:00.5Z"}, {Name: "carillon-job", Value: "näme"}}
	want(t, publish(t, client(t, r.options()), m), kinds{acknowledged: 1})
	d := r.drain(t, queue)[0]
	headers := amqp091.Table{"cloudEvents:id": "0001", "cloudEvents:type": "run",
		"cloudEvents:time": "2026-11-28T13:00:00.5Z", "carillon-job": "näme"}
	if !maps.Equal(d.Headers, headers) {
		t.Errorf("headers %v, want %v", d.Headers, headers)
	}
	if d.MessageId != "0001" || d.Type != "run" || d.ContentType != "text/plain" ||
		d.DeliveryMode != amqp091.Persistent ||
		!d.Timestamp.Equal(time.Date(2026, 11, 28, 13, 0, 0, 0, time.UTC)) || string(d.Body) != `{"a":1}` {
		t.Errorf("%+v", d)
	}
}

// No queue, no exchange, no binding: refused, and messages to elsewhere in the same batch arrive.
func testNowhere(t *testing.T, r *rig) {
	exchange := r.bind(t, "direct", "bound")
	var ms []broker.Message
	for i := range 50 {
		id := fmt.Sprintf("%03d", i)
		ms = append(ms, message("", "none", id, 1), message("none", "any", id, 1),
			message(exchange, "loose", id, 1), message(exchange, "bound", id, 1))
	}
	errs := publish(t, client(t, r.options()), ms...)
	want(t, errs, kinds{refused: 150, acknowledged: 50})
	says(t, errs[0], `there is no queue "none"`, "NO_ROUTE")
	says(t, errs[1], `exchange "none"`, "NOT_FOUND")
	says(t, errs[2], "no queue is bound to", `routing key "loose"`)
	for i := 3; i < len(errs); i += 4 {
		if errs[i] != nil {
			t.Errorf("message %d, to a queue: %v", i, errs[i])
		}
	}
	if n := len(r.drain(t, r.queue(t, nil))); n != 50 {
		t.Errorf("%d messages arrived, want 50", n)
	}
}

// The attempts of a run have one id. Each return is that of its message.
func testReturns(t *testing.T, r *rig) {
	ms := many("", "none", 100)
	for i := range ms {
		ms[i].ID = "the run"
		if i%2 == 1 {
			ms[i].Headers = append(ms[i].Headers, broker.Header{Name: "carillon-attempt", Value: fmt.Sprint(i)})
		}
	}
	want(t, publish(t, client(t, r.options()), ms...), kinds{refused: 100})
}

// An exchange that is deleted between two messages, on a channel that is in use.
func testExchangeGone(t *testing.T, r *rig) {
	exchange := r.bind(t, "fanout", "")
	c := client(t, r.options())
	want(t, publish(t, c, many(exchange, "", 10)...), kinds{acknowledged: 10})
	must(t, r.owner.ExchangeDelete(exchange, false, false))
	errs := publish(t, c, many(exchange, "", 1)...)
	want(t, errs, kinds{refused: 1})
	errs = publish(t, c, many(exchange, "", 10)...)
	want(t, errs, kinds{refused: 10})
	r.bind(t, "fanout", "")
	want(t, publish(t, c, many(exchange, "", 10)...), kinds{acknowledged: 10})
}

// Half of a batch is too large for the broker, which closes the channel: the other half arrives, once.
func testTooLarge(t *testing.T, r *rig) {
	queue := r.queue(t, nil)
	o := r.options()
	o.MaxMessageBytes = 10 * maxBytes
	ms := many("", queue, 20)
	for i := range ms {
		if i%2 == 1 {
			ms[i].Data = make([]byte, maxBytes+i)
		}
	}
	ms[19].Data = make([]byte, 11*maxBytes)
	errs := publish(t, client(t, o), ms...)
	want(t, errs, kinds{acknowledged: 10, refused: 10})
	says(t, errs[1], "PRECONDITION_FAILED", "size")
	says(t, errs[19], "max_message_bytes is 1000000")
	if got := ids(r.drain(t, queue)); len(got) != 10 || !slices.IsSorted(got) {
		t.Errorf("%d arrived, want 10: %v", len(got), got)
	}
	headers := message("", queue, "a", 1)
	headers.Headers = append(headers.Headers, broker.Header{Name: "long", Value: string(make([]byte, 200_000))})
	errs = publish(t, client(t, o), headers, message("", queue, "b", 1))
	want(t, errs, kinds{acknowledged: 1, refused: 1})
	says(t, errs[0], "frame_max")
}

// testTooLargeAmongOthers has a limit below the size from which messages are sent alone.
func testTooLargeAmongOthers(t *testing.T, r *rig) {
	limit := func(bytes int) {
		r.Eval(t, fmt.Sprintf(`application:set_env(rabbit, max_message_size, %d).`, bytes))
	}
	limit(1000)
	defer limit(maxBytes)
	queue := r.queue(t, nil)
	ms := many("", queue, 100)
	ms[50].Data = make([]byte, 2000)
	c := client(t, r.options())
	errs := publish(t, c, ms...)
	k := count(errs)
	if k.unsent > 0 || k.refused > 1 || k.acknowledged == 0 {
		t.Errorf("%+v; want some acknowledged, none unsent, at most one refused", k)
	}
	there := ids(r.drain(t, queue))
	for i, m := range ms {
		if errs[i] == nil && !slices.Contains(there, m.ID) {
			t.Errorf("message %d was acknowledged and is not there", i)
		}
	}
	errs = publish(t, c, ms...) // the retry: now it is known whom the broker means
	want(t, errs, kinds{acknowledged: 99, refused: 1})
	r.drain(t, queue)
}

// Whoever cannot log in has sent nothing.
func testLogin(t *testing.T, r *rig) {
	o := r.options()
	o.Password = "wrong"
	errs := publish(t, client(t, o), many("", "any", 3)...)
	want(t, errs, kinds{unsent: 3})
	says(t, errs[0], r.Address(), "username or password not allowed")
	o = r.options()
	o.VirtualHost = "none"
	errs = publish(t, client(t, o), many("", "any", 3)...)
	want(t, errs, kinds{unsent: 3})
	says(t, errs[0], "vhost none not found")
}

func testRights(t *testing.T, r *rig) {
	o := r.options()
	o.Username, o.Password = "reader", "secret"
	errs := publish(t, client(t, o), many("", r.queue(t, nil), 10)...)
	want(t, errs, kinds{refused: 10})
	says(t, errs[9], "ACCESS_REFUSED")
}

// Rights may depend on the routing key: whoever may write is not harmed by those who may not.
func testTopicRights(t *testing.T, r *rig) {
	exchange := r.bind(t, "topic", "#")
	o := r.options()
	o.Username, o.Password = "topical", "secret"
	var ms []broker.Message
	for i := range 50 {
		id := fmt.Sprint(i)
		ms = append(ms, message(exchange, "good", id, 1), message(exchange, "bad", id, 1))
	}
	errs := publish(t, client(t, o), ms...)
	want(t, errs, kinds{acknowledged: 50, refused: 50})
	says(t, errs[1], "ACCESS_REFUSED", "bad")
	if n := len(r.drain(t, r.queue(t, nil))); n != 50 {
		t.Errorf("%d messages arrived, want 50", n)
	}
}

// A nack is no refusal: there may be room the next time.
func testFullQueue(t *testing.T, r *rig) {
	queue := r.queue(t, amqp091.Table{"x-max-length": 5, "x-overflow": "reject-publish"})
	c := client(t, r.options())
	errs := publish(t, c, many("", queue, 200)...)
	k := count(errs)
	there := len(r.drain(t, queue))
	if k.unsent+k.refused > 0 || k.acknowledged != there || k.doubtful == 0 {
		t.Errorf("%+v, and %d are there", k, there)
	}
	says(t, errs[199], "nack")
	want(t, publish(t, c, many("", queue, 1)...), kinds{acknowledged: 1})
}

// More targets than channels: idle ones give way, and the messages of a target stay in order.
func testManyTargets(t *testing.T, r *rig) {
	exchange := r.bind(t, "fanout", "")
	c := client(t, r.options())
	for range 2 {
		var ms []broker.Message
		for n := range 3 {
			for i := range 2 * maxChannels {
				key := fmt.Sprintf("%03d", i)
				ms = append(ms, message(exchange, key, fmt.Sprint(key, n), 1))
			}
		}
		want(t, publish(t, c, ms...), kinds{acknowledged: len(ms)})
		got := r.drain(t, r.queue(t, nil))
		byKey := func(a, b amqp091.Delivery) int { return strings.Compare(a.RoutingKey, b.RoutingKey) }
		slices.SortStableFunc(got, byKey)
		if !slices.IsSorted(ids(got)) || len(got) != len(ms) {
			t.Errorf("%d messages arrived, in order: %v; want %d", len(got), slices.IsSorted(ids(got)), len(ms))
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.only().channels); n > maxChannels {
		t.Errorf("%d channels are open", n)
	}
}

// The broker shows a certificate; its user is the password's, or that of a certificate of the client.
func testTLS(t *testing.T, r *rig, address string, roots *x509.CertPool, own tls.Certificate) {
	queue := r.queue(t, nil)
	o := r.options()
	o.Addresses, o.TLS = []string{address}, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	want(t, publish(t, client(t, o), many("", queue, 10)...), kinds{acknowledged: 10})
	o.Mechanism, o.Username, o.Password = "EXTERNAL", "", ""
	o.TLS.Certificates = []tls.Certificate{own}
	want(t, publish(t, client(t, o), many("", queue, 10)...), kinds{acknowledged: 10})
	later := func() time.Time { return time.Now().Add(24 * time.Hour) }
	for reason, secure := range map[string]*tls.Config{"unknown authority": {},
		"match other": {RootCAs: roots, ServerName: "other"}, "expired": {RootCAs: roots, Time: later}} {
		o.TLS = secure
		o.TLS.Certificates = []tls.Certificate{own}
		errs := publish(t, client(t, o), many("", queue, 1)...)
		want(t, errs, kinds{unsent: 1})
		says(t, errs[0], "TLS", reason)
	}
	r.drain(t, queue)
}

// certificateOf is a certificate of a user, signed by an authority, with the authority's key.
func certificateOf(t *testing.T, authority tls.Certificate, user string) tls.Certificate {
	t.Helper()
	shape := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user},
		NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	signer := authority.PrivateKey.(crypto.Signer)
	der, err := x509.CreateCertificate(rand.Reader, shape, authority.Leaf, signer.Public(), signer)
	must(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: signer}
}
