package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"testing"
)

// peer is the other end of a connection: it takes some writes, and says what it is told to.
type peer struct {
	net.Conn

	takes   int // writes, and then half of one
	answers *bytes.Reader
	most    int // bytes of one Read
}

func (p *peer) Write(b []byte) (int, error) {
	if p.takes == 0 {
		return len(b) / 2, net.ErrClosed
	}
	p.takes--
	return len(b), nil
}

func (p *peer) Read(b []byte) (int, error) {
	return p.answers.Read(b[:min(len(b), 1+rand.IntN(p.most))])
}

func (p *peer) Close() error { return nil }

// emptyAnswer is what the answer to a produce request has at least, behind its first two bytes.
const emptyAnswer = 6

func frame(key uint16, size int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(size+2))
	return append(binary.BigEndian.AppendUint16(b, key), make([]byte, size)...)
}

// However the answers are cut into pieces, those produce requests are lost that have begun to leave and that
// have no whole answer.
func TestLost(t *testing.T) {
	const metadataKey = 3
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 0))
		sent, answered := random.IntN(10), 0
		var answers []byte
		var keys []uint16
		for range sent {
			keys = append(keys, []uint16{produceKey, metadataKey}[random.IntN(2)])
		}
		if sent > 0 {
			answered = random.IntN(sent + 1)
		}
		for range answered {
			answers = append(answers, frame(0, emptyAnswer+random.IntN(20))...)
		}
		if answered < sent {
			part := frame(0, 10)
			answers = append(answers, part[:random.IntN(len(part))]...)
		}
		w := &wire{}
		p := &peer{takes: sent, answers: bytes.NewReader(answers), most: 1 + random.IntN(12)}
		if broken := random.IntN(2) == 0 && sent > 0; broken {
			p.takes, answered, p.answers = sent-1, 0, bytes.NewReader(nil)
		}
		c := &conn{Conn: p, wire: w}
		var begun, lost uint64
		for i, key := range keys {
			if _, err := c.Write(frame(key, 30)); err != nil && i < p.takes {
				t.Fatal(err)
			}
			if key == produceKey {
				begun++
				if i >= answered {
					lost++
				}
			}
		}
		if _, err := io.ReadAll(c); err != nil {
			t.Fatal(err)
		}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(c.Close())
		must(c.Close())
		if got := w.now(); got.begun != begun || got.lost != lost {
			t.Fatalf("seed %d: of %v, %d answered: %+v, want %d begun and %d lost", seed, keys, answered, got, begun, lost)
		}
	}
}

// After its end no produce request leaves.
func TestWireCloses(t *testing.T) {
	w := &wire{}
	c := &conn{Conn: &peer{takes: 5, answers: bytes.NewReader(nil), most: 1}, wire: w}
	w.close()
	if n, err := c.Write(frame(produceKey, 10)); n != 0 || !errors.Is(err, net.ErrClosed) {
		t.Errorf("it wrote %d bytes: %v", n, err)
	}
	if got := w.now(); got != (mark{}) {
		t.Errorf("it counts %+v", got)
	}
}
