package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"slices"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/reconnect"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
)

// Headers of messages in a dead-letter topic, beside those that they had.
const (
	reasonHeader = "carillon-reason"       // why, for people
	kindHeader   = "carillon-reason-kind"  // the code of the error, as the API has it
	fieldHeader  = "carillon-reason-field" // what is at fault; missing if that is not known
	fromHeader   = "carillon-from"         // where it was
	ingestHeader = "carillon-ingest"       // which ingest took it
)

var letterHeaders = []string{reasonHeader, kindHeader, fieldHeader, fromHeader, ingestHeader}

// maxReason is the most bytes of a reason.
const maxReason = 2048

// bury puts a message into the dead-letter topic, and returns true when the broker has it there. It tries
// until ctx ends.
func (g *Ingest) bury(ctx, calls context.Context, it *item, reason error) bool {
	m := g.letter(it, reason)
	var pause reconnect.Backoff
	for ctx.Err() == nil && it.d.Begin() {
		within, cancel := context.WithTimeout(calls, callWithin)
		sent := make(chan error, 1)
		g.letters.Publish(within, []broker.Message{m}, func(_ int, err error) { sent <- err })
		err := <-sent
		cancel()
		if err == nil {
			g.deadLetters.ends()
			g.o.Log.Warn("a message is no command that can be done", "at", it.d.At, "error", reason)
			return true
		}
		if calls.Err() != nil {
			return false
		}
		g.deadLetters.fails(err)
		g.hold(it, err.Error())
		if pause = pause.Next(); pause.Wait(ctx) != nil {
			return false
		}
	}
	return false
}

// letter is a message as the dead-letter topic gets it: as it was, with the reason.
func (g *Ingest) letter(it *item, reason error) broker.Message {
	m := broker.Message{To: g.config.DeadLetter, ContentType: it.d.ContentType, Data: it.d.Data,
		ID: letterID(it)}
	if m.To.Kafka != nil {
		to := *m.To.Kafka
		to.Key = it.d.Key
		m.To.Kafka = &to
	}
	add := func(name, value string) {
		m.Headers = append(m.Headers, broker.Header{Name: name, Value: strings.ToValidUTF8(value, "\uFFFD")})
	}
	had := map[string]bool{}
	for _, h := range it.d.Headers {
		if !had[h.Name] && !slices.Contains(letterHeaders, h.Name) {
			had[h.Name] = true
			add(h.Name, h.Value)
		}
	}
	text, kind, field := reason.Error(), carillon.KindOf(reason).String(), ""
	if e, ok := errors.AsType[*carillon.Error](reason); ok {
		text, field = e.Message, e.Field
	}
	add(reasonHeader, text[:min(len(text), maxReason)])
	add(kindHeader, kind)
	if field != "" {
		add(fieldHeader, field)
	}
	add(fromHeader, it.d.At)
	add(ingestHeader, g.config.Name)
	return m
}

// letterID is the same for the same message, so that a broker that knows of it keeps one.
func letterID(it *item) string {
	h := sha256.New()
	_, _ = io.WriteString(h, it.d.At+"\x00") // a hash takes everything
	h.Write(it.d.Data)
	return "dead-" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}
