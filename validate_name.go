package carillon

import (
	"errors"
	"strings"
)

// ValidateKey checks the name of an existing job: neither part may be empty.
func ValidateKey(k Key) error {
	if err := ValidateNamespace(k.Namespace); err != nil {
		return err
	}
	return checkJobName(k.Name, MaxName)
}

// ValidateNamespace checks a namespace: 1 to 63 bytes of a-z, 0-9 and "-".
func ValidateNamespace(namespace string) error { return checkNamespace(namespace, MaxNamespace) }

// ValidatePrefix checks a prefix of job names; an empty one would mean every job.
func ValidatePrefix(namespace, prefix string) error {
	if err := ValidateNamespace(namespace); err != nil {
		return err
	}
	if prefix == "" {
		return Errorf(InvalidArgument, "prefix", "it is empty, which would mean every job of the namespace")
	}
	return checkCharacters("prefix", prefix, MaxName)
}

// ValidateQueueName checks the name of a worker queue; an error names the given field.
func ValidateQueueName(field, queue string) error {
	if queue == "" {
		return Errorf(InvalidArgument, field, "the queue's name is missing")
	}
	if len(queue) > MaxName {
		return tooLarge(field, len(queue), MaxName)
	}
	if !printable(queue) {
		return Errorf(InvalidArgument, field, "%q has a character that is not printable", clip(queue))
	}
	return nil
}

func checkNamespace(namespace string, most int) error {
	switch {
	case namespace == "":
		return Errorf(InvalidArgument, "namespace", "it is missing")
	case len(namespace) > most:
		return tooLarge("namespace", len(namespace), most)
	case strings.Trim(namespace, "abcdefghijklmnopqrstuvwxyz0123456789-") != "":
		return Errorf(InvalidArgument, "namespace", "%q has a character other than a-z, 0-9 and -", clip(namespace))
	}
	return nil
}

func checkJobName(name string, most int) error {
	if name == "" {
		return Errorf(InvalidArgument, "name", "it is missing")
	}
	if err := checkCharacters("name", name, most); err != nil {
		return err
	}
	for level := range strings.SplitSeq(name, "/") {
		switch level {
		case "":
			return Errorf(InvalidArgument, "name", `%q has an empty level: nothing stands before, between or after "/"`, clip(name))
		case ".", "..":
			return Errorf(InvalidArgument, "name", "%q has the level %q, which HTTP clients take out of a path; write another word",
				clip(name), level)
		}
	}
	return nil
}

func checkCharacters(field, name string, most int) error {
	switch {
	case len(name) > most:
		return tooLarge(field, len(name), most)
	case strings.Contains(name, ":"):
		return Errorf(InvalidArgument, field, `%q has a ":", which begins a verb in the API`, clip(name))
	case !printable(name):
		return Errorf(InvalidArgument, field, "%q has a character that is not printable", clip(name))
	}
	return nil
}

// renamedWithin prefixes the field of err with outer; nil stays nil.
func renamedWithin(outer string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		return WithField(err, outer+"."+e.Field)
	}
	return err
}
