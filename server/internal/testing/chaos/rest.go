package chaos

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/internal/wire"
)

// rest is a caller that speaks REST, as somebody would who has only read docs/api.md.
type rest struct{ address string }

var _ caller = rest{}

// restJob is a job as REST has it, as far as it is used here.
type restJob struct {
	Schedule string          `json:"schedule,omitempty"`
	Due      string          `json:"due_time,omitempty"`
	Data     json.RawMessage `json:"data,omitempty"`
	Target   map[string]any  `json:"target,omitempty"`
	Policy   map[string]any  `json:"failure_policy,omitempty"`
	Timeout  string          `json:"timeout,omitempty"`
	Lease    string          `json:"lease,omitempty"`
	Overlap  string          `json:"overlap,omitempty"`
	Repeats  uint64          `json:"repeats,string,omitempty"`
	Misfire  string          `json:"misfire,omitempty"`
	Priority string          `json:"class,omitempty"`
	Paused   bool            `json:"paused,omitempty"`
	History  map[string]any  `json:"history,omitempty"`
	Status   *restStatus     `json:"status,omitempty"`
}

type restStatus struct {
	UID        string    `json:"uid"`
	Generation string    `json:"generation"`
	Next       time.Time `json:"next_run_time"`
}

// PutJob puts a job.
func (r rest) PutJob(ctx context.Context, job carillon.Job,
	opts ...carillon.PutOption) (carillon.PutResult, error) {
	header := http.Header{}
	o := carillon.PutOptions{}.With(opts...)
	if o.IfAbsent {
		header.Set("If-None-Match", "*")
	}
	if o.IfGeneration > 0 {
		header.Set("If-Match", strconv.Quote(strconv.FormatUint(o.IfGeneration, 10)))
	}
	return r.put(ctx, http.MethodPut, job.Name, header, bodyOf(&job))
}

// PatchJob patches data, and nothing else.
func (r rest) PatchJob(ctx context.Context, key carillon.Key,
	patch carillon.Patch) (carillon.PutResult, error) {
	header := http.Header{}
	if patch.IfGeneration > 0 {
		header.Set("If-Match", strconv.Quote(strconv.FormatUint(patch.IfGeneration, 10)))
	}
	return r.put(ctx, http.MethodPatch, key.Name, header, restJob{Data: patch.Job.Data.Bytes})
}

func (r rest) put(ctx context.Context, method, name string, header http.Header,
	body restJob) (carillon.PutResult, error) {
	var out struct {
		Job              restJob
		Created, Changed bool
	}
	if err := r.do(ctx, method, "/v1/namespaces/"+namespace+"/jobs/"+name, header, body, &out); err != nil {
		return carillon.PutResult{}, err
	}
	j, err := out.Job.job()
	return carillon.PutResult{Job: j, Created: out.Created, Changed: out.Changed}, err
}

// SetPaused pauses or resumes.
func (r rest) SetPaused(ctx context.Context, key carillon.Key,
	p carillon.PauseOptions) (carillon.Job, error) {
	verb := ":resume"
	if p.Paused {
		verb = ":pause"
	}
	return r.ask(ctx, http.MethodPost, key.Name+verb)
}

// GetJob reads a job.
func (r rest) GetJob(ctx context.Context, key carillon.Key) (carillon.Job, error) {
	return r.ask(ctx, http.MethodGet, key.Name)
}

func (r rest) ask(ctx context.Context, method, name string) (carillon.Job, error) {
	var out restJob
	if err := r.do(ctx, method, "/v1/namespaces/"+namespace+"/jobs/"+name, nil, nil, &out); err != nil {
		return carillon.Job{}, err
	}
	return out.job()
}

// DeleteJob removes a job.
func (r rest) DeleteJob(ctx context.Context, key carillon.Key,
	opts ...carillon.DeleteOption) (carillon.DeleteResult, error) {
	header := http.Header{}
	if o := (carillon.DeleteOptions{}).With(opts...); o.IfGeneration != 0 {
		header.Set("If-Match", strconv.Quote(strconv.FormatUint(o.IfGeneration, 10)))
	}
	return carillon.DeleteResult{}, r.do(ctx, http.MethodDelete, "/v1/namespaces/"+namespace+"/jobs/"+key.Name,
		header, nil, nil)
}

// TriggerJob runs a job now. It knows no options.
func (r rest) TriggerJob(ctx context.Context, key carillon.Key,
	_ ...carillon.TriggerOption) (carillon.Run, error) {
	var out struct{ ID string }
	err := r.do(ctx, http.MethodPost, "/v1/namespaces/"+namespace+"/jobs/"+key.Name+":trigger", nil, nil, &out)
	return carillon.Run{ID: out.ID}, err
}

// CancelRun ends a run.
func (r rest) CancelRun(ctx context.Context, _, id string) (carillon.CancelResult, error) {
	return carillon.CancelResult{}, r.do(ctx, http.MethodPost,
		"/v1/namespaces/"+namespace+"/runs/"+id+":cancel", nil, nil, nil)
}

// overlapWords are the overlap rules that are not the default.
var overlapWords = map[carillon.Overlap]string{
	carillon.OverlapSkip: "skip", carillon.OverlapAllow: "allow", carillon.OverlapReplace: "replace",
}

// misfireWords are the misfire rules that are not the default.
var misfireWords = map[carillon.MisfireRule]string{carillon.MisfireAll: "all", carillon.MisfireSkip: "skip"}

func policyOf(p *carillon.FailurePolicy) map[string]any {
	if p.Kind == carillon.PolicyDrop {
		return map[string]any{"drop": map[string]any{}}
	}
	return map[string]any{"constant": map[string]any{"interval": p.Interval.String(),
		"max_retries": *p.MaxRetries}}
}

// bodyOf writes a drawn job.
func bodyOf(j *carillon.Job) restJob {
	out := restJob{
		Schedule: j.Schedule, Due: j.Due.String(), Data: j.Data.Bytes, Timeout: j.Timeout.String(),
		Policy:  policyOf(&j.FailurePolicy),
		Repeats: j.Repeats,
		History: map[string]any{"runs": j.History.Runs},
		Overlap: overlapWords[j.Overlap],
		Misfire: misfireWords[j.Misfire.Rule],
		Priority: map[carillon.Priority]string{carillon.PriorityCritical: "critical", carillon.PriorityHigh: "high",
			carillon.PriorityNormal: "normal",
			carillon.PriorityLow:    "low"}[j.Priority],
	}
	if j.Target.HTTP != nil {
		out.Target = map[string]any{"http": map[string]any{"url": j.Target.HTTP.URL}}
	} else {
		out.Target = map[string]any{"worker": map[string]any{"queue": j.Target.Worker.Queue}}
		out.Lease = j.Lease.String()
	}
	return out
}

// job reads what an answer says of a job.
func (j *restJob) job() (carillon.Job, error) {
	out := carillon.Job{Paused: j.Paused, Data: carillon.Bytes(j.Data, carillon.ContentTypeJSON),
		Status: &carillon.JobStatus{}}
	if j.Status == nil {
		return out, errors.New("the answer has no status")
	}
	generation, err := strconv.ParseUint(j.Status.Generation, 10, 64)
	if err != nil {
		return out, err
	}
	out.Status.Generation, out.Status.NextRun = generation, j.Status.Next
	uid, err := base64.StdEncoding.DecodeString(j.Status.UID)
	copy(out.Status.UID[:], uid)
	return out, err
}

// do makes a request. An answer that does not come is of unknown outcome, unless nobody was reached.
func (r rest) do(ctx context.Context, method, path string, header http.Header, in, out any) error {
	var body io.Reader = http.NoBody
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+r.address+path, body)
	if err != nil {
		return err
	}
	maps.Copy(req.Header, header)
	res, err := oneCall.Do(req)
	if err != nil {
		op, dial := errors.AsType[*net.OpError](err)
		return &carillon.Error{Kind: carillon.Unavailable, Message: err.Error(), Unknown: !dial || op.Op != "dial"}
	}
	text, err := io.ReadAll(res.Body)
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return &carillon.Error{Kind: carillon.Unavailable, Message: err.Error(), Unknown: true}
	}
	if res.StatusCode/100 != 2 {
		return problemOf(text)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(text, out)
}

// problemOf reads a problem document.
func problemOf(text []byte) error {
	var p struct {
		Code    string
		Field   string
		Detail  string
		Unknown bool `json:"outcome_unknown"`
	}
	if err := json.Unmarshal(text, &p); err != nil || p.Code == "" {
		return &carillon.Error{Kind: carillon.Internal,
			Message: "not a problem document: " + string(text), Unknown: true}
	}
	return &carillon.Error{Kind: wire.KindOfText(p.Code), Field: p.Field, Message: p.Detail, Unknown: p.Unknown}
}
