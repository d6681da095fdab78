package webhooks

import (
	"encoding/json"
	"net/url"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// typePrefix begins the types of CloudEvents; the type of the event follows.
const typePrefix = "com.carillonhq."

// missed is the type of what is sent if events may be missing that were recorded and not sent in time.
const missed carillon.EventType = "events.missed"

// How a job delivers an event: at once, then after 1 s, 2 s, 4 s and so on up to 10 min, for about a day;
// then its run is dead.
const (
	firstRetry = time.Second
	lastRetry  = 10 * time.Minute
	retries    = 150
)

// cloudEvent is the structured form of CloudEvents 1.0 in JSON.
type cloudEvent struct {
	SpecVersion     string          `json:"specversion"`
	ID              string          `json:"id"`
	Source          string          `json:"source"`
	Type            string          `json:"type"`
	Subject         string          `json:"subject,omitempty"`
	Time            string          `json:"time"`
	DataContentType string          `json:"datacontenttype"`
	Data            json.RawMessage `json:"data"`
}

// contentType is that of the structured form.
const contentType = "application/cloudevents+json"

// source returns where an event comes from, as a path of the REST API, and what it is about within that.
func source(e *carillon.Event) (source, subject string) {
	namespace := "/v1/namespaces/" + e.Namespace
	switch {
	case e.Node != "":
		return "/v1/nodes", e.Node
	case e.Queue != "":
		return namespace + "/queues/" + e.QueueKind, e.Queue
	case e.Job != "":
		return namespace + "/jobs/" + (&url.URL{Path: e.Job}).EscapedPath(), e.Run
	}
	return namespace, ""
}

// encode returns an event as a CloudEvent; its data is the event as REST has it.
func encode(e *carillon.Event) ([]byte, error) {
	c := cloudEvent{SpecVersion: "1.0", ID: e.ID, Type: typePrefix + string(e.Type),
		Time: e.Time.UTC().Format(time.RFC3339Nano), DataContentType: carillon.ContentTypeJSON,
		Data: httpapi.Marshal(wire.EventToProto(e))}
	c.Source, c.Subject = source(e)
	return json.Marshal(&c)
}

// jobOf returns the job that sends an event to a webhook of a namespace.
func jobOf(namespace string, w *carillon.Webhook, e *carillon.Event) (carillon.Job, error) {
	body, err := encode(e)
	if err != nil {
		return carillon.Job{}, err
	}
	policy := carillon.Exponential(firstRetry).WithMaxRetries(retries)
	policy.Max = lastRetry
	return carillon.Job{
		Namespace: namespace, Name: carillon.EventJobs + w.Name + "/" + e.ID,
		Data:          carillon.Data{Bytes: body, ContentType: contentType},
		Target:        w.TargetOf(e),
		FailurePolicy: policy,
	}, nil
}
