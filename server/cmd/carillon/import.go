package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/manifest"
)

// newImport returns the command `carillon import`.
func newImport(a app) *cobra.Command {
	cmd := newGroup("import", "Make jobs of the files of other schedulers", newImportCrontab(a), newImportCronJob(a))
	cmd.Long = `Make jobs of the files of other schedulers. They are printed as YAML, for "carillon apply -f -"; what cannot be carried over is
named above each job, and on standard error. Files of jobs themselves are taken by "carillon apply".`
	return cmd
}

// importing holds the flags of `carillon import`.
type importing struct {
	options manifest.ImportOptions
}

func (i *importing) command(a app, use, short, long, example string,
	read func(file string, text []byte) (manifest.Import, error)) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Long: long, Example: example, Args: arguments(1, 1),
		RunE: func(_ *cobra.Command, words []string) error {
			if i.options.Queue == "" {
				return usagef("--worker: the queue is missing whose workers run the commands")
			}
			text, err := readArgument(words[0], a.in)
			if err != nil {
				return err
			}
			got, err := read(words[0], text)
			if err != nil {
				return manifestError(err)
			}
			return a.imported(words[0], got)
		}}
	cmd.Flags().StringVar(&i.options.Queue, "worker", "", "`queue` whose workers run the commands (required)")
	cmd.Flags().StringVar(&i.options.TimeZone, "time-zone", "",
		"IANA `zone` of schedules for which the file names none; default UTC")
	zoneFlag(cmd)
	cmd.Flags().StringVar(&i.options.Prefix, "prefix", "", "put it before the jobs' names")
	return cmd
}

// readArgument reads the file that an argument names.
func readArgument(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in)
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, cannotRead("FILE", name, err)
	}
	return text, nil
}

func newImportCrontab(a app) *cobra.Command {
	var i importing
	cmd := i.command(a, "crontab FILE", "Make a job of each line of a crontab",
		`Make a job of each line of a crontab, of FILE or standard input (-). The command is the payload of the job, as JSON with the fields
command, stdin, env and user; a worker runs it, and the script below does as cron does with all but the user. As with cron, runs may
overlap, those that were missed are not made up for, and those that failed are not repeated. Cron goes by the time zone of its machine,
which a crontab does not say: give --time-zone, unless CRON_TZ stands above all lines.`,
		`crontab -l | carillon import crontab - --worker cron --time-zone Europe/Berlin | carillon apply -f -
cat >run.sh <<'END'
payload=$(cat) SHELL=/bin/sh
get() { printf %s "$payload" | jq -j "$1"; }
command=$(get .command)
env=$(get '.env // {} | to_entries[] | @sh "export \(.key)=\(.value);"')
get '.stdin // ""' | { eval "$env"; "$SHELL" -c "$command"; }
END
carillon work cron -- sh run.sh`,
		func(file string, text []byte) (manifest.Import, error) {
			return manifest.Crontab(file, string(text), i.options)
		})
	cmd.Flags().Lookup("time-zone").Usage = "IANA `zone` of the lines above which there is no CRON_TZ; that of cron's machine"
	cmd.Flags().BoolVar(&i.options.System, "system", false, "a user stands before each command, as in /etc/crontab")
	return cmd
}

func newImportCronJob(a app) *cobra.Command {
	var i importing
	return i.command(a, "cronjob FILE", "Make a job of each CronJob of Kubernetes",
		`Make a job of each CronJob of a file of manifests of Kubernetes, FILE or standard input (-); lists of them are taken, too. The
template of the pod is the payload of the job, as JSON with the field template; a worker runs it. A schedule without spec.timeZone goes
by the zone of the machine of kube-controller-manager, which is UTC most of the time; give --time-zone if it is another.`,
		`kubectl get cronjobs -o yaml | carillon import cronjob - --worker pods | carillon apply -f -`,
		func(file string, text []byte) (manifest.Import, error) {
			return manifest.CronJobs(file, text, i.options)
		})
}

// imported prints jobs as YAML, and what could not be carried over.
func (a app) imported(file string, got manifest.Import) error {
	for _, note := range got.Notes {
		a.sayf("%s: %s", file, note)
	}
	notes := len(got.Notes)
	for n := range got.Jobs {
		made := &got.Jobs[n]
		text, err := manifest.Job(&made.Job)
		if err != nil {
			return err
		}
		where := fmt.Sprintf("%s:%d", oneLine.Replace(file), made.Line)
		var head strings.Builder
		if n > 0 {
			head.WriteString("---\n")
		}
		head.WriteString("# from " + where + "\n")
		for _, note := range made.Notes {
			head.WriteString("# " + oneLine.Replace(note) + "\n")
			a.sayf("%s: %s: %s", where, made.Job.Name, note)
		}
		if err := checkImported(&made.Job); err != nil {
			head.WriteString("# carillon does not take it as it is: " + oneLine.Replace(err.Error()) + "\n")
			a.sayf("%s: %s: carillon does not take it as it is: %s", where, made.Job.Name, err)
			notes++
		}
		notes += len(made.Notes)
		if err := a.print(head.String() + string(text)); err != nil {
			return err
		}
	}
	a.sayf("%d jobs were made%s.", len(got.Jobs),
		strings.TrimSuffix(fmt.Sprintf(", with %d notes", notes), ", with 0 notes"))
	if len(got.Jobs) == 0 {
		return usagef("no job could be made of %q", clip(file, 80))
	}
	return nil
}

func checkImported(j *carillon.Job) error {
	checked := *j
	checked.Namespace = carillon.DefaultNamespace
	return zoneHint(checked.TimeZone, checked.Validate(wideBounds))
}
