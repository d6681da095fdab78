package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// cronJob is what is read of a CronJob of Kubernetes. What a manifest has beside it is named as not carried
// over.
type cronJob struct {
	Metadata struct {
		Name   string            `json:"name"`
		Labels map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Schedule   string `json:"schedule"`
		TimeZone   string `json:"timeZone"`
		Suspend    bool   `json:"suspend"`
		Policy     string `json:"concurrencyPolicy"`
		Deadline   *int64 `json:"startingDeadlineSeconds"`
		Successful *int   `json:"successfulJobsHistoryLimit"`
		Failed     *int   `json:"failedJobsHistoryLimit"`
		Template   struct {
			Spec struct {
				BackoffLimit *uint32         `json:"backoffLimit"`
				Deadline     *int64          `json:"activeDeadlineSeconds"`
				Template     json.RawMessage `json:"template"`
			} `json:"spec"`
		} `json:"jobTemplate"`
	} `json:"spec"`
}

// carried are the fields of a CronJob that a job takes over, with all below them, or that say nothing.
var carried = []string{"apiVersion", "kind", "metadata.name", "metadata.labels", "spec.schedule",
	"spec.timeZone",
	"spec.suspend", "spec.concurrencyPolicy", "spec.startingDeadlineSeconds", "spec.successfulJobsHistoryLimit",
	"spec.failedJobsHistoryLimit", "spec.jobTemplate.spec.backoffLimit",
	"spec.jobTemplate.spec.activeDeadlineSeconds", "spec.jobTemplate.spec.template", "status",
	"metadata.creationTimestamp", "metadata.uid", "metadata.resourceVersion", "metadata.generation",
	"metadata.managedFields"}

// CronJobs makes a job of each CronJob of a file of manifests; lists of them are opened. The template of
// the pod is the payload, for a worker. Every fault of the file is an *Error.
func CronJobs(file string, text []byte, o ImportOptions) (Import, error) {
	c := cronJobs{reader: reader{file: file}, options: o, names: map[string]bool{}}
	d := yaml.NewDecoder(strings.NewReader(string(text)))
	for {
		var doc yaml.Node
		err := d.Decode(&doc)
		if err != nil && err.Error() == "EOF" {
			return c.out, nil
		}
		if err != nil {
			return c.out, c.syntax(err)
		}
		if len(doc.Content) == 0 || isEmpty(doc.Content[0]) {
			continue
		}
		if err := c.take(doc.Content[0]); err != nil {
			return c.out, err
		}
	}
}

type cronJobs struct {
	reader
	options ImportOptions
	names   map[string]bool
	out     Import
}

// take takes a document, or an item of a list.
func (c *cronJobs) take(n *yaml.Node) error {
	kind := value(n, "kind")
	switch {
	case kind == nil:
		return c.at(n, "it is no manifest of Kubernetes: it has no kind", 0)
	case kind.Value == "List" || kind.Value == "CronJobList":
		items := value(n, "items")
		if items == nil || items.Kind != yaml.SequenceNode {
			return c.at(n, "items: a list of manifests is missing", 0)
		}
		for _, item := range items.Content {
			if err := c.take(aliased(item)); err != nil {
				return err
			}
		}
		return nil
	case kind.Value != "CronJob":
		c.out.Notes = append(c.out.Notes, fmt.Sprintf("line %d: a %.60s is left out: only CronJobs are taken", n.Line, kind.Value))
		return nil
	}
	convert := converter{budget: MaxBytes / 8}
	raw, err := convert.convert(n)
	if err != nil {
		return c.at(convert.node, err.Error(), 0)
	}
	var m cronJob
	if err := json.Unmarshal(raw, &m); err != nil {
		return c.at(n, err.Error(), 0)
	}
	return c.add(n, &m)
}

func (c *cronJobs) add(n *yaml.Node, m *cronJob) error {
	s := &m.Spec
	if _, err := schedule.Parse(s.Schedule, schedule.Options{}); err != nil {
		return c.at(locate(n, "spec.schedule"), "spec.schedule: "+err.Error(), 0)
	}
	template := s.Template.Spec.Template
	if len(template) == 0 {
		return c.at(locate(n, "spec.jobTemplate.spec"), "spec.jobTemplate.spec.template: it is missing", 0)
	}
	made := Imported{Line: n.Line, Job: carillon.Job{
		Name:     unusedName(c.names, c.options.Prefix, m.Metadata.Name),
		Schedule: s.Schedule, TimeZone: firstText(s.TimeZone, c.options.TimeZone), Paused: s.Suspend,
		Labels:        m.Metadata.Labels,
		Data:          carillon.Bytes([]byte(`{"template":`+string(template)+`}`), carillon.ContentTypeJSON),
		Target:        carillon.Target{Worker: &carillon.WorkerTarget{Queue: c.options.Queue}},
		FailurePolicy: backoff(s.Template.Spec.BackoffLimit)}}
	made.policies(m)
	for _, path := range leaves(n, "") {
		if !slices.ContainsFunc(carried,
			func(c string) bool { return path == c || strings.HasPrefix(path, c+".") }) {
			made.Notes = append(made.Notes, path+" is not carried over")
		}
	}
	c.out.Jobs = append(c.out.Jobs, made)
	return nil
}

// backoff is the policy of the Job controller: 10 s, doubled up to 6 minutes, 6 times unless it says
// otherwise.
func backoff(limit *uint32) carillon.FailurePolicy {
	retries := uint32(6)
	if limit != nil {
		retries = *limit
	}
	return carillon.FailurePolicy{Kind: carillon.PolicyExponential, Initial: 10 * time.Second, Factor: 2,
		Max: 6 * time.Minute, MaxRetries: &retries, OnExhausted: carillon.ExhaustedDrop}
}

func (i *Imported) policies(m *cronJob) {
	s := &m.Spec
	switch s.Policy {
	case "", "Allow":
		i.Job.Overlap = carillon.OverlapAllow
	case "Forbid":
		i.Job.Overlap = carillon.OverlapSkip
	case "Replace":
		i.Job.Overlap = carillon.OverlapReplace
	default:
		i.Notes = append(i.Notes, fmt.Sprintf("spec.concurrencyPolicy %.40q is not carried over", s.Policy))
	}
	if s.Deadline != nil {
		i.Notes = append(i.Notes, "spec.startingDeadlineSeconds is not carried over: of missed times the latest one is run, however late")
	}
	if d := s.Template.Spec.Deadline; d != nil && *d > 0 && *d <= int64(carillon.MaxTimeout/time.Second) {
		i.Job.Timeout = time.Duration(*d) * time.Second
	} else if d != nil {
		i.Notes = append(i.Notes, "spec.jobTemplate.spec.activeDeadlineSeconds is not carried over: it is out of range")
	}
	if s.Successful != nil || s.Failed != nil {
		runs := historyOf(s.Successful, 3) + historyOf(s.Failed, 1)
		if i.Job.History.Runs = min(runs, carillon.MaxHistoryRuns); runs == 0 {
			i.Job.History.Runs = -1
		}
	}
}

func historyOf(n *int, otherwise int) int {
	if n == nil {
		return otherwise
	}
	return max(*n, 0)
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// leaves lists the paths of the fields of an object that are no objects, and of objects that are empty.
func leaves(n *yaml.Node, path string) (all []string) {
	n = aliased(n)
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 || slices.Contains(carried, path) {
		return []string{path}
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		all = append(all, leaves(n.Content[i+1], strings.TrimPrefix(path+"."+n.Content[i].Value, "."))...)
	}
	return all
}
