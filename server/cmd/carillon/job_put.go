package main

import (
	"cmp"
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// jobPut holds the flags of `carillon job put`.
type jobPut struct {
	connection
	file         string
	ifAbsent     bool
	ifGeneration uint64
	fields       jobFlags
	dataFile     dataFile
}

// newJobPut returns the command `carillon job put`.
func newJobPut(a app) *cobra.Command {
	p := jobPut{fields: newJobFlags(a.in)}
	cmd := &cobra.Command{
		Use:   "put [NAME]",
		Short: "Store a job, replacing an older one of the name",
		Long: `Store a job, replacing an older one of the name. Without a name one is made up. A job has a target, --worker or
--http, and fires once (--in, --at, or now) unless it has a --schedule. Flags win over the file given with -f.`,
		Example: `carillon job put hello --in 5s --http http://127.0.0.1:9999/ --data '{"x":1}'
carillon job put reports/nightly --schedule "0 0 2 * * *" --time-zone Europe/London --worker reports
carillon job put mail --worker mail --data @mail.json --retry exponential --max-retries 8
carillon job put -f job.json`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, words []string) error { return p.run(cmd, a, words) },
	}
	p.fields.add(cmd)
	cmd.Flags().StringVarP(&p.file, "file", "f", "",
		"JSON `file` with the job as the REST API takes it; - for standard input")
	cmd.Flags().BoolVar(&p.ifAbsent, "if-absent", false, "only if there is no job of the name")
	cmd.Flags().Uint64Var(&p.ifGeneration, "if-generation", 0, "only over this `generation`; 0 is any")
	p.dataFile.add(cmd)
	p.add(cmd)
	cmd.ValidArgsFunction = p.completeJobs
	p.completeQueues(cmd, "worker")
	p.completeJobFlag(cmd, "depends-on")
	exclusive(cmd, "in", "at")
	exclusive(cmd, "worker", "http", "kafka", "amqp", "nats", "redis")
	exclusive(cmd, "if-absent", "if-generation")
	return cmd
}

func (p *jobPut) run(cmd *cobra.Command, a app, words []string) error {
	job, err := p.job(cmd, a.in, words)
	if err != nil {
		return err
	}
	return p.ask(a, func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
		if err := p.dataFile.load(ctx, node, &job, a.in); err != nil {
			return answer{}, err
		}
		put, err := node.PutJob(ctx, job,
			carillon.PutOptions{IfAbsent: p.ifAbsent, IfGeneration: p.ifGeneration})
		return a.putAnswer(&put), err
	})(cmd, words)
}

// job returns the job that the file and the flags describe.
func (p *jobPut) job(cmd *cobra.Command, in io.Reader, words []string) (carillon.Job, error) {
	p.resolve(cmd)
	var job carillon.Job
	if p.file != "" {
		var err error
		if job, _, err = readJob(p.file, in); err != nil {
			return job, err
		}
	}
	if _, err := p.fields.apply(cmd.Flags(), &job, nil); err != nil {
		return job, err
	}
	if at := cmd.Flags().Lookup("at"); at.Changed && needsZone(at.Value.String()) && !job.Recurring() {
		job.TimeZone = "" // it was that of --at
	}
	if err := cmp.Or(checkSchedule(cmd, &job), checkPolicy(&job.FailurePolicy),
		checkHTTPFlags(cmd, &job)); err != nil {
		return job, err
	}
	if job.Namespace == "" || cmd.Flags().Changed("namespace") {
		job.Namespace = p.namespace
	}
	if len(words) > 0 {
		job.Name = words[0]
	}
	return job, checkData(&job.Data)
}

// checkSchedule refuses an empty schedule: an unset variable of a script would make a job that runs at once,
// and is gone.
func checkSchedule(cmd *cobra.Command, j *carillon.Job) error {
	if cmd.Flags().Changed("schedule") && j.Schedule == "" && j.Due == (carillon.When{}) {
		return usagef("--schedule: it is empty; leave it out, or give --in or --at, for a job that runs once")
	}
	return nil
}

// checkHTTPFlags refuses flags for HTTP requests if the job has no HTTP target.
func checkHTTPFlags(cmd *cobra.Command, j *carillon.Job) error {
	for _, name := range []string{"header", "method"} {
		if cmd.Flags().Changed(name) && (j.Target.HTTP == nil || j.Target.HTTP.URL == "") {
			return usagef("--%s: it belongs to a call of --http, which is missing", name)
		}
	}
	return nil
}

// readJob reads a job in the form of the REST API, and the fields that a patch with it names.
func readJob(file string, in io.Reader) (carillon.Job, []string, error) {
	text, err := readFile(file, in)
	if err != nil {
		return carillon.Job{}, nil, err
	}
	var m pb.Job
	given, err := httpapi.UnmarshalPatch(text, &m)
	if err != nil {
		return carillon.Job{}, nil, err
	}
	m.Status = nil
	job, err := wire.JobFromProto(&m)
	return job, given, err
}

// readFile reads a file, or standard input if it is "-".
func readFile(file string, in io.Reader) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(in)
	}
	return readNamed("file", file)
}

// putAnswer says what a put has done, and prints its warnings.
func (a app) putAnswer(put *carillon.PutResult) answer {
	for _, w := range put.Warnings {
		a.sayf("warning: %s", w)
	}
	text := put.Job.Name + " unchanged"
	switch {
	case put.Created:
		text = put.Job.Name + " created"
	case put.Changed:
		text = put.Job.Name + " changed"
	}
	if s := put.Job.Status; s != nil && !s.NextRun.IsZero() {
		text += ", next run " + localAndAgo(s.NextRun, time.Now())
	}
	return answer{message: wire.PutToProto(put), text: text + "\n"}
}
