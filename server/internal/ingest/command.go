package ingest

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
	"github.com/carillonhq/carillon/server/internal/message"
)

// The types of events.
const (
	JobPut      = "com.carillonhq.job.put"
	JobCreate   = "com.carillonhq.job.create"
	JobDelete   = "com.carillonhq.job.delete"
	JobTrigger  = "com.carillonhq.job.trigger"
	RunComplete = "com.carillonhq.run.complete"
)

// Types are the types of events that are commands.
var Types = []string{JobPut, JobCreate, JobDelete, JobTrigger, RunComplete}

// command makes a command of an event. sent is when the broker got it; zero: unknown.
func (c *Config) command(e *event, sent, now time.Time) (message.Command, error) {
	cmd := message.Command{Request: requestOf(e), KeepFor: c.Remember, SeenAt: seenAt(e, sent, now),
		Key: carillon.Key{Namespace: c.Namespace, Name: e.subject}}
	var err error
	switch e.typ {
	case JobPut, JobCreate:
		cmd.IfAbsent, cmd.IfGeneration = e.typ == JobCreate, e.ifGeneration
		err = c.put(&cmd, e)
	case JobDelete:
		cmd.IfGeneration = e.ifGeneration
		if data := string(bytes.TrimSpace(e.data)); data != "" && data != "null" && data != "{}" {
			err = invalid("data", "a delete has none: the job's name is the subject")
		}
	case JobTrigger:
		err = c.trigger(&cmd, e)
	case RunComplete:
		err = c.complete(&cmd, e)
	default:
		err = invalid(eventType, "%.100q is not one of %s", e.typ, strings.Join(Types, ", "))
	}
	switch {
	case err != nil:
	case e.ifGeneration != 0 && e.typ != JobPut && e.typ != JobDelete:
		err = invalid(ifGeneration, "only %s and %s have it", JobPut, JobDelete)
	case e.typ == RunComplete:
	case cmd.Key.Name == "":
		err = invalid(subject, "it is missing: give the job's name")
	default:
		err = cmd.Key.Validate()
	}
	return cmd, err
}

// requestOf names the command of an event: its source and its id name it among all events.
func requestOf(e *event) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint32(nil, uint32(len(e.source))))
	h.Write([]byte(e.source))
	h.Write([]byte(e.id))
	return "event:" + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:18])
}

// seenAt is when relative times begin to count: at the event's time, or when the broker got it. A clock that
// is ahead does not count.
func seenAt(e *event, sent, now time.Time) time.Time {
	for _, at := range []time.Time{e.at, sent} {
		if !at.IsZero() && at.Before(now) {
			return at
		}
	}
	return now
}

// decode reads the event's data as REST does.
func decode(e *event, into proto.Message) error {
	if len(bytes.TrimSpace(e.data)) == 0 {
		return nil
	}
	_, err := httpapi.Unmarshal(e.data, into)
	return err
}

// name takes a name and a namespace that the data gives, too.
func (c *Config) name(to *string, field, given, namespace string) error {
	if namespace != "" && namespace != c.Namespace {
		return invalid("namespace", "%.70q is not %q, that of this ingest", namespace, c.Namespace)
	}
	if *to == "" {
		*to = given
	}
	if given != "" && given != *to {
		return invalid(field, "%.70q is not the event's subject, %.70q", given, *to)
	}
	return nil
}

func (c *Config) put(cmd *message.Command, e *event) error {
	if len(bytes.TrimSpace(e.data)) == 0 {
		return invalid("data", "it is missing: it is the job, as the body of PUT /v1/namespaces/NS/jobs/NAME")
	}
	var m pb.Job
	if err := decode(e, &m); err != nil {
		return err
	}
	if err := c.name(&cmd.Key.Name, "name", m.GetName(), m.GetNamespace()); err != nil {
		return err
	}
	job, err := wire.JobFromProto(&m)
	if err != nil {
		return err
	}
	job.Namespace, job.Name = cmd.Key.Namespace, cmd.Key.Name
	cmd.Job = &job
	return nil
}

func (c *Config) trigger(cmd *message.Command, e *event) error {
	var m pb.TriggerJobRequest
	if err := decode(e, &m); err != nil {
		return err
	}
	if err := c.name(&cmd.Key.Name, "name", m.GetName(), m.GetNamespace()); err != nil {
		return err
	}
	o, err := wire.TriggerFromProto(&m)
	cmd.Trigger = &o
	return err
}

func (c *Config) complete(cmd *message.Command, e *event) error {
	var m pb.CompleteRunRequest
	if err := decode(e, &m); err != nil {
		return err
	}
	cmd.Key.Name = ""
	id := e.subject
	if err := c.name(&id, "id", m.GetId(), m.GetNamespace()); err != nil {
		return err
	}
	m.Id = id
	if m.GetToken() == "" {
		return invalid("token", "it is missing: give the header carillon-token of the run")
	}
	r, err := wire.CompletionFromProto(&m)
	cmd.Complete = &r
	return err
}
