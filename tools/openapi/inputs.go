package main

import (
	"maps"
	"slices"
	"strings"
)

// Input ends the name of a schema of what may be sent, where another one describes what is answered.
const inputSuffix = "Input"

// notBuilt are the targets that a job cannot have yet. They are refused by name.
var notBuilt = []string{"exec"}

// addInputs makes schemas of what may be sent of those of what is answered: nothing unknown, null for the
// default of a field, 64-bit integers also as numbers. A patch has every field of a job, and needs none.
func (d *document) addInputs() {
	d.addInput("Job")
	job := must(d.schemas, "Job"+inputSuffix)
	properties := must(job, "properties")
	properties["status"] = object{"type": []any{"object", "null"}, "readOnly": true,
		"description": "Ignored, so that a job can be put as it was read."}
	job["not"] = onePayload()
	patch := clone(job)
	patch["description"] = "JobPatch changes the fields that it has, each whole, and leaves the rest of the job."
	for _, name := range []string{"namespace", "name"} {
		must(patch, "properties", name)["description"] = "As in the path, or not given."
	}
	d.schemas["JobPatch"] = patch
	job["required"] = []any{"target"}
	properties["target"] = ref("Target" + inputSuffix)
	job["dependentRequired"] = object{"repeats": []any{"schedule"}}
	d.oneTarget()
	d.addInput("Progress")
	must(d.schemas, "Progress"+inputSuffix)["required"] = []any{"percent"}
	must(d.schemas, "Progress"+inputSuffix, "properties")["at"] = object{"type": []any{"string", "null"},
		"format": "date-time", "readOnly": true, "description": "Ignored."}

	target := must(d.schemas, "Target"+inputSuffix)
	forms := []any{}
	for _, f := range target["oneOf"].([]any)[1:] { // the first is that there is none
		name := f.(object)["required"].([]any)[0].(string)
		if slices.Contains(notBuilt, name) {
			delete(must(target, "properties"), name)
			continue
		}
		must(f.(object), "properties", name)["type"] = "object" // not null
		forms = append(forms, f)
	}
	target["oneOf"] = forms
}

// neededFields are what messages in bodies need, besides those that are said above.
var neededFields = map[string][]any{"WorkerTarget": {"queue"}, "HttpTarget": {"url"},
	"KafkaTarget": {"cluster", "topic"}, "AmqpTarget": {"broker"}, "NatsTarget": {"server", "subject"},
	"RedisTarget":    {"server", "stream"},
	"SchedulePolicy": {"cron"}, "Webhook": {"name", "types"}}

// oneTarget makes a webhook have an address or a broker, and just one.
func (d *document) oneTarget() {
	d.addInput("Webhook")
	forms := []any{}
	for _, name := range []string{"url", "kafka", "amqp", "nats", "redis"} {
		is := object{"type": "object"}
		if name == "url" {
			is = object{"type": "string", "minLength": 1} // an empty one is none
		}
		forms = append(forms, object{"required": []any{name}, "properties": object{name: is}})
	}
	must(d.schemas, "Webhook"+inputSuffix)["oneOf"] = forms
}

// addInput adds the schema of what may be sent of a message, and of the messages in it.
func (d *document) addInput(name string) {
	if _, done := d.schemas[name+inputSuffix]; done {
		return
	}
	schema := clone(must(d.schemas, name))
	d.schemas[name+inputSuffix] = schema
	delete(schema, "required")
	d.makeInput(must(schema, "properties"))
	schema["additionalProperties"] = false
	if needed, ok := neededFields[name]; ok {
		schema["required"] = needed
		for _, field := range needed {
			p := must(schema, "properties", field.(string))
			p["type"] = p["type"].([]any)[0] // not null
		}
	}
}

// makeInput makes properties those of what may be sent.
func (d *document) makeInput(properties object) {
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		p := properties[name].(object)
		if to := refName(p); to != "" {
			properties[name] = d.inputRef(to, p)
			continue
		}
		if items, ok := p["items"].(object); ok {
			if to := refName(items); to != "" && must(d.schemas, to)["enum"] == nil {
				d.addInput(to)
				p["items"] = ref(to + inputSuffix)
			}
		}
		if values, ok := p["additionalProperties"].(object); ok {
			if to := refName(values); to != "" && must(d.schemas, to)["enum"] == nil {
				d.addInput(to)
				p["additionalProperties"] = ref(to + inputSuffix)
			}
		}
		if p["format"] == "uint64" || p["format"] == "int64" && p["type"] == "string" {
			p["type"] = []any{"string", "integer", "null"}
			p["minimum"] = 0
			continue
		}
		if kind, ok := p["type"].(string); ok && name != "data" {
			p["type"] = []any{kind, "null"}
		}
		if words, ok := p["enum"].([]any); ok {
			p["enum"] = append(words, nil)
		}
	}
}

// inputRef refers to what may be sent of a message, or to an enum; either may be null, but for the form of
// what needs one.
func (d *document) inputRef(to string, p object) object {
	if !strings.HasSuffix(to, inputSuffix) && must(d.schemas, to)["enum"] == nil {
		d.addInput(to)
		to += inputSuffix
	}
	return object{"anyOf": []any{ref(to), object{"type": "null"}}, "description": p["description"]}
}
