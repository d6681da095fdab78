package manifest_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/server/internal/manifest"
)

// texts are what YAML may take for something else, and what terminals act upon.
var texts = rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "null", "~", "true", "yes", "1.50", "0x10", "2027-01-01",
	"a: b", "# c", "- d", "---", "...", "\n", " x ", "&a", "*a", "!t", "{", "[", "%", "@x", "`", "'", "\"", "\\", "\u2028", "\u202e", "\x1b[2J",
	"a\nb\n", "a\r\nb", "\t", "<<", "é", "報告", "\ufeff", "\u0085"}))

var values = rapid.SampledFrom([]string{`{"a":  1.50}`, `null`, `"x"`, `[1, 2.0e3, {"k": [] , "l": {}}]`, `{"a":1,"a":2}`, `"\u00e9"`, `1e999`,
	`{"<<": {"a": 1}}`, `{"": "~"}`, `12345678901234567890123`, `-0.0`, `{"t": "2027-01-01", "n": null, "b": true, "s": "\u001b"}`, ` [ ] `})

func anyJob(t *rapid.T) carillon.Job {
	pairs := rapid.MapOfN(rapid.StringN(1, 10, -1), texts, 0, 3)
	j := carillon.Job{Namespace: "default", Name: rapid.StringN(1, 20, -1).Draw(t, "name"), Schedule: "@daily",
		Note: texts.Draw(t, "note"), Metadata: pairs.Draw(t, "metadata"), Labels: pairs.Draw(t, "labels"),
		Paused: rapid.Bool().Draw(t, "paused"), Overlap: carillon.Overlap(rapid.IntRange(0, 3).Draw(t, "overlap")),
		Target: carillon.Target{Worker: &carillon.WorkerTarget{Queue: texts.Draw(t, "queue")}}}
	switch rapid.IntRange(0, 2).Draw(t, "data") {
	case 1:
		j.Data = carillon.Bytes([]byte(values.Draw(t, "json")), carillon.ContentTypeJSON)
	case 2:
		j.Data = carillon.Bytes(rapid.SliceOfN(rapid.Byte(), 1, 20).Draw(t, "bytes"), "text/plain")
	}
	return j
}

// TestWhatIsWrittenReadsBack: every job, with texts that YAML may take for something else.
func TestWhatIsWrittenReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := rapid.SliceOfN(rapid.Custom(anyJob), 1, 3).Draw(t, "jobs")
		var documents [][]byte
		for i := range jobs {
			text, err := manifest.Job(&jobs[i])
			if err != nil {
				t.Fatal(err)
			}
			documents = append(documents, text)
		}
		items, err := manifest.Read("f", manifest.Join(documents...))
		if err != nil || len(items) != len(jobs) {
			t.Fatalf("%d jobs, %v", len(items), err)
		}
		for i := range jobs {
			want, got := manifest.Spec(&jobs[i]), manifest.Spec(&items[i].Job)
			if want.GetContentType() == carillon.ContentTypeJSON && manifest.SameJSON(want.GetData(), got.GetData()) {
				got.Data = want.GetData()
			}
			if !proto.Equal(want, got) {
				t.Fatalf("%s\nis read as %v, not %v", documents[i], got, want)
			}
		}
	})
}

func TestFaultsHaveAPlace(t *testing.T) {
	const target = "target: {worker: {queue: q}}\n"
	for text, want := range map[string]string{
		"name: a\n" + target + "nme: b":                        "f:3:1: nme: unknown field",
		"name: a\ntarget:\n  http:\n    ulr: x":                "f:4:5: target.http.ulr: unknown field",
		"name: a\nrepeats: x\n" + target:                       "f:2:1: repeats: ",
		"name: a\ndepends_on: [b, 1]\n" + target:               "f:2:17: depends_on[1]: ",
		"name: a\nname: b\n" + target:                          "f:2:1: name: given twice",
		"jobs:\n  - name: a\n    x: 1":                         "f:3:5: x: unknown field",
		"jobs: 1":                                              "f:1:7: jobs: must be a list",
		"- a":                                                  "f:1:1: the body must be an object",
		"a: b: c":                                              "f:1: ",
		"name: a\ndata: .inf\n" + target:                       "f:2:7: .inf is not a number",
		"name: a\ndata: {1: {[x]: y}}\n" + target:              "f:2:12: a key must be a text",
		"name: a\n<<: 3\n" + target:                            "f:2:5: <<: only maps",
		"name: a\ndata: !!binary aGk=\n" + target:              "has no form in JSON",
		"name: &a [*a]\n":                                      "f:1",
		strings.Repeat("{a: ", 200) + strings.Repeat("}", 200): "f:1",
		"{\"name\": \"a\",\n \"x\": 1}":                        "f:2:2: x: unknown field",
		"{\"name\":\t\"a\"}\n{\"name\": \"b\",\n\n\"y\":1}":    "f:4:1: y: unknown field",
		"name: a\n" + target + "---\n" + target:                "f:4:1: name: it is missing",
	} {
		_, err := manifest.Read("f", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}

func TestALongFileIsRefused(t *testing.T) {
	if _, err := manifest.Read("f", make([]byte, manifest.MaxBytes+1)); err == nil {
		t.Error("it is read")
	}
	bomb := "a0: &a0 [" + strings.Repeat("x, ", 100) + "]\n"
	for i := 1; i < 8; i++ {
		bomb += strings.ReplaceAll("aN: &aN ["+strings.Repeat("*aM, ", 100)+"]\n", "N", string(rune('0'+i)))
		bomb = strings.ReplaceAll(bomb, "aM", "a"+string(rune('0'+i-1)))
	}
	if _, err := manifest.Read("f", []byte(bomb)); err == nil || !strings.Contains(err.Error(), "too much") {
		t.Errorf("%v", err)
	}
}

func TestCrontab(t *testing.T) {
	for line, want := range map[string]string{
		"* * * * * a":           "* * * * *|a|",
		"0 0 1 * */2 a b":       "0 0 1 * +*/2|a b|",
		"0 0 1 * MON a":         "0 0 1 * MON|a|",
		`* * * * * a\%b%c\%d%e`: "* * * * *|a%b|c%d\ne\n",
		"@Hourly\t a":           "@Hourly|a|",
		"  5 4 * * sun  x  ":    "5 4 * * sun|x|",
	} {
		got, err := manifest.Crontab("f", line+"\r\n", manifest.ImportOptions{Queue: "q", TimeZone: "UTC"})
		if err != nil || len(got.Jobs) != 1 || len(got.Notes) != 0 {
			t.Errorf("%q: %+v, %v", line, got, err)
			continue
		}
		parts := strings.Split(want, "|")
		j := got.Jobs[0].Job
		for _, part := range []string{j.Schedule + "|" + parts[0]} {
			if is, must, _ := strings.Cut(part, "|"); is != must {
				t.Errorf("%q: the schedule is %q", line, is)
			}
		}
		items, err := manifest.Read("f", append([]byte(`{"name":"a","data":`), append(j.Data.Bytes, '}')...))
		if err != nil {
			t.Fatal(err)
		}
		data := string(items[0].Job.Data.Bytes)
		if !strings.Contains(data, `"command":"`+parts[1]+`"`) ||
			(parts[2] != "") != strings.Contains(data, `"stdin":"`+strings.ReplaceAll(parts[2], "\n", `\n`)+`"`) {
			t.Errorf("%q: the payload is %s", line, data)
		}
	}
}

// TestACrontabNeedsATimeZone: cron goes by that of its machine.
func TestACrontabNeedsATimeZone(t *testing.T) {
	for text, want := range map[string]string{
		"A=b\n0 2 * * * a":                                    "f:2: its time zone is not known",
		"@daily a\nCRON_TZ=Asia/Tokyo\n@daily a":              "f:1: its time zone is not known",
		"CRON_TZ=Asia/Tokyo\n@daily a\nCRON_TZ=\n* * * * * a": "f:4: its time zone is not known",
		"CRON_TZ=Asia/Tokyo\n@daily a":                        "",
		"@reboot a\nno\n":                                     "",
	} {
		_, err := manifest.Crontab("f", text, manifest.ImportOptions{Queue: "q"})
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
		if _, err := manifest.Crontab("f", text, manifest.ImportOptions{Queue: "q", TimeZone: "UTC"}); err != nil && !strings.HasPrefix(want, "f:4") {
			t.Errorf("%q, in UTC: %v", text, err)
		}
	}
}
