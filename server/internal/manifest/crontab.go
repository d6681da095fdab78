package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/schedule"
)

// ImportOptions say what the files of other schedulers do not.
type ImportOptions struct {
	Queue    string // of the workers that run the commands
	TimeZone string // of schedules that name none; empty: UTC for a CronJob, and none for a crontab
	Prefix   string // of the jobs' names
	System   bool   // a crontab has a user before each command, as /etc/crontab
}

// Imported is a job that was made of a part of a file.
type Imported struct {
	Job   carillon.Job
	Line  int
	Notes []string // what could not be carried over, or is different
}

// Import is what was made of a file.
type Import struct {
	Jobs  []Imported
	Notes []string // about what no job was made of
}

// crontab reads the lines of one.
type crontab struct {
	options ImportOptions
	zone    string
	env     map[string]string
	names   map[string]bool
	out     Import
}

// command is the payload of a job that was a line of a crontab.
type command struct {
	Command string            `json:"command"`
	Stdin   string            `json:"stdin,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
	User    string            `json:"user,omitempty"`
}

var assignment = regexp.MustCompile(`^\s*([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*$`)

// Crontab makes a job of each line of a crontab. As with cron, runs overlap, missed ones are not made up
// for, and failed ones are not repeated. The command is the payload, for a worker. A line without a time zone
// is an *Error: cron goes by that of its machine, which the text does not say.
func Crontab(file, text string, o ImportOptions) (Import, error) {
	c := crontab{options: o, zone: o.TimeZone, env: map[string]string{}, names: map[string]bool{}}
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if m := assignment.FindStringSubmatch(line); m != nil {
			c.assign(i+1, m[1], unquote(m[2]))
			continue
		}
		made := len(c.out.Jobs)
		c.line(i+1, line)
		if len(c.out.Jobs) > made && c.zone == "" {
			return Import{}, &Error{File: file, Line: i + 1, Message: "its time zone is not known: cron goes by that of its machine; " +
				"give it, as in --time-zone Europe/Berlin, or in a line CRON_TZ=Europe/Berlin above this one"}
		}
	}
	return c.out, nil
}

func (c *crontab) notef(line int, format string, args ...any) {
	c.out.Notes = append(c.out.Notes, fmt.Sprintf("line %d: ", line)+fmt.Sprintf(format, args...))
}

// assign takes an assignment, which holds for the lines below it.
func (c *crontab) assign(line int, name, value string) {
	switch name {
	case "CRON_TZ":
		c.zone = value
	case "MAILTO", "MAILFROM":
		c.notef(line, "%s is not carried over: no mail is sent; the result of a run is kept with it, and webhooks tell of failures", name)
	case "RANDOM_DELAY", "CONTENT_TYPE", "CONTENT_TRANSFER_ENCODING", "CRON_WITHIN", "START_HOURS_RANGE":
		c.notef(line, "%s is not carried over", name)
	default:
		c.env[name] = value
	}
}

func unquote(s string) string {
	if n := len(s); n >= 2 && (s[0] == '"' || s[0] == '\'') && s[n-1] == s[0] {
		return s[1 : n-1]
	}
	return s
}

// cut returns the first word, and what follows it.
func cut(s string) (word, rest string) {
	s = strings.TrimLeft(s, " \t")
	if i := strings.IndexAny(s, " \t"); i >= 0 {
		return s[:i], strings.TrimLeft(s[i:], " \t")
	}
	return s, ""
}

func (c *crontab) line(n int, line string) {
	var expr string
	switch {
	case strings.HasPrefix(line, "@"):
		expr, line = cut(line)
		if strings.EqualFold(expr, "@reboot") {
			c.notef(n, "@reboot is not carried over: it is no time; the command is %.60q", line)
			return
		}
	default:
		var words []string
		for range 5 {
			var word string
			word, line = cut(line)
			words = append(words, word)
		}
		expr = bothDays(words)
	}
	cmd := command{}
	if c.options.System {
		cmd.User, line = cut(line)
	}
	if line == "" {
		c.notef(n, "it has no command, so it is left out")
		return
	}
	if _, err := schedule.Parse(expr, schedule.Options{}); err != nil {
		c.notef(n, "it is left out: %v", err)
		return
	}
	cmd.Command, cmd.Stdin = percent(line)
	c.add(n, expr, cmd)
}

// bothDays writes the day fields as they are meant: cron wants both of them if one begins with a star.
func bothDays(words []string) string {
	dom, dow := words[2], words[4]
	if dom != "*" && dow != "*" && (strings.HasPrefix(dom, "*") || strings.HasPrefix(dow, "*")) {
		words[4] = "+" + dow
	}
	return strings.Join(words, " ")
}

// percent parts a command from its standard input: the first % ends it, the others are ends of lines.
func percent(line string) (cmd, stdin string) {
	var parts []string
	var b strings.Builder
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '\\' && i+1 < len(line) && line[i+1] == '%':
			b.WriteByte('%')
			i++
		case line[i] == '%':
			parts = append(parts, b.String())
			b.Reset()
		default:
			b.WriteByte(line[i])
		}
	}
	parts = append(parts, b.String())
	if len(parts) == 1 {
		return parts[0], ""
	}
	return parts[0], strings.Join(parts[1:], "\n") + "\n"
}

func (c *crontab) add(n int, expr string, cmd command) {
	if len(c.env) > 0 {
		cmd.Env = maps.Clone(c.env)
	}
	var raw bytes.Buffer
	e := json.NewEncoder(&raw)
	e.SetEscapeHTML(false)
	if err := e.Encode(cmd); err != nil {
		c.notef(n, "it is left out: %v", err)
		return
	}
	j := carillon.Job{Name: c.name(cmd.Command), Schedule: expr, TimeZone: c.zone,
		Data:          carillon.Bytes(bytes.TrimSpace(raw.Bytes()), carillon.ContentTypeJSON),
		Target:        carillon.Target{Worker: &carillon.WorkerTarget{Queue: c.options.Queue}},
		Overlap:       carillon.OverlapAllow,
		Misfire:       carillon.Misfire{Rule: carillon.MisfireSkip},
		FailurePolicy: carillon.FailurePolicy{Kind: carillon.PolicyDrop}}
	made := Imported{Job: j, Line: n}
	if cmd.User != "" {
		made.Notes = append(made.Notes, fmt.Sprintf("the user %s is in the payload only: a worker runs as the user that it was started by", cmd.User))
	}
	c.out.Jobs = append(c.out.Jobs, made)
}

var notOfName = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// name makes a name of a command: that of its program, with a number if it was there before.
func (c *crontab) name(cmd string) string {
	word, rest := cut(cmd)
	for assignment.MatchString(word) && rest != "" { // A=b program
		word, rest = cut(rest)
	}
	base := strings.Trim(notOfName.ReplaceAllString(path.Base(word), "-"), "-.")
	return unusedName(c.names, c.options.Prefix, base)
}

// unusedName returns a name that no other job of the import has.
func unusedName(names map[string]bool, prefix, base string) string {
	if base == "" {
		base = "command"
	}
	name := prefix + base
	for n := 2; names[name]; n++ {
		name = fmt.Sprintf("%s%s-%d", prefix, base, n)
	}
	names[name] = true
	return name
}
