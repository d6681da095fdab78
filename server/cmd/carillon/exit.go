package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon"
	pb "github.com/carillonhq/carillon/api/carillon/v1"
	"github.com/carillonhq/carillon/internal/wire"
	"github.com/carillonhq/carillon/server/internal/httpapi"
)

// The exit codes.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitNotFound = 3
	exitUnknown  = 4 // of doctor: what is wrong is not known; of job wait: it was not over in time
	exitDiffers  = 5 // of diff: the files and the jobs differ
)

// usageError reports an invalid command line.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// flagError turns an error of the flag parser into a usage error in plain words, with a hint when a flag is
// misspelt.
func flagError(cmd *cobra.Command, err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("--%s: %s", invalid.GetFlag().Name,
			valueError(invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap()))
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("--%s: a value is missing after it", missing.GetFlag().Name)
	}
	if syntax, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		return usagef("%q is not a flag; write --name value or --name=value", clip(syntax.GetSpecifiedFlag(), 40))
	}
	unknown, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usagef("%s", err)
	}
	if letters := unknown.GetSpecifiedShortnames(); letters != "" {
		return usagef("unknown flag %q for %q", "-"+unknown.GetSpecifiedName(), cmd.CommandPath())
	}
	name := "--" + clip(unknown.GetSpecifiedName(), 40)
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return usagef("unknown flag %q for %q%s", name, cmd.CommandPath(),
		hint("\nDid you mean --%s?", unknown.GetSpecifiedName(), names))
}

// settingError describes in plain words what is wrong with the value of a setting; the caller adds its name.
func settingError(err error) error {
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return errors.New(valueError(invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap()))
	}
	return err
}

// valueError describes what is wrong with the value of a flag. The standard library's errors about numbers
// and durations are for programmers.
func valueError(f *pflag.Flag, value string, cause error) string {
	wanted := map[string]string{
		"bool": "true or false", "int": "a whole number", "uint64": "a whole number from 0 on",
		"float64": "a number", "duration": "a duration such as 30s or 5m",
	}[f.Value.Type()]
	_, ours := f.Value.(*jobFlag)
	number, isNumber := errors.AsType[*strconv.NumError](cause)
	switch {
	case isNumber && errors.Is(number.Err, strconv.ErrRange), !ours && outOfRange(f.Value.Type(), value):
		return fmt.Sprintf("%s is out of range", clip(value, 40))
	case wanted != "" && (isNumber || !ours): // this program's own flags have plain messages
		return fmt.Sprintf("%q is not %s", clip(value, 40), wanted)
	}
	return cause.Error()
}

// outOfRange reports whether a value has the form of the flag's type but is too large or too small. The
// library's flags do not say why they refuse a number.
func outOfRange(kind, value string) bool {
	var err error
	switch kind {
	case "int":
		_, err = strconv.ParseInt(value, 0, 0)
	case "uint64":
		_, err = strconv.ParseUint(value, 0, 64)
	case "float64":
		_, err = strconv.ParseFloat(value, 64)
	}
	return errors.Is(err, strconv.ErrRange)
}

// arguments checks the number of arguments. Its error is a usage error.
func arguments(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, words []string) error {
		switch n := len(words); {
		case n > most:
			return usagef("%q is one argument too many\nUsage: %s", clip(words[most], 40), cmd.UseLine())
		case n < least:
			return usagef("an argument is missing\nUsage: %s", cmd.UseLine())
		}
		return nil
	}
}

// check adds a check of a command's flags to those that it has.
func check(cmd *cobra.Command, wrong func(*cobra.Command) error) {
	before := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, words []string) error {
		if err := wrong(cmd); err != nil || before == nil {
			return err
		}
		return before(cmd, words)
	}
}

// exclusive refuses two of flags that contradict each other.
func exclusive(cmd *cobra.Command, names ...string) {
	check(cmd, func(cmd *cobra.Command) error {
		given := ""
		for _, name := range names {
			switch {
			case !cmd.Flags().Changed(name):
			case given != "":
				return usagef("--%s and --%s cannot be given together", given, name)
			default:
				given = name
			}
		}
		return nil
	})
}

// report prints an error, in words or in the format that is asked for, and returns the exit code.
func (a app) report(cmd *cobra.Command, args []string, err error) int {
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errDiffers):
		return exitDiffers // the diff has said it
	}
	err = zoneHint(unknownZone(cmd), err)
	usage, isUsage := errors.AsType[*usageError](err)
	switch f := askedFormat(cmd, args); {
	case f.word == "json" || f.word == "yaml":
		a.reportTo(f, problemOf(err))
	case isUsage:
		a.sayf("carillon: %s\nRun \"%s --help\" for what it takes.", brief(usage.message), cmd.CommandPath())
	default:
		a.sayf("carillon: %s", brief(errorWords(err)))
	}
	if isUsage {
		return usageCode(cmd)
	}
	return exitCode(err)
}

// reportTo prints an error in a format.
func (a app) reportTo(f *format, problem *pb.Problem) {
	text := httpapi.Marshal(problem) // in the form of the REST API
	var err error
	if f.word == "json" {
		_, err = (&visible{w: a.errs}).Write(text) // on one line
	} else {
		err = f.write(&visible{w: a.errs}, text)
	}
	_ = err // a failure of this cannot be reported anywhere
}

// failed is the code of an error that has none in the API.
const failed = "failed"

// problemOf returns an error in the form of the API.
func problemOf(err error) *pb.Problem {
	if usage, ok := errors.AsType[*usageError](err); ok {
		wrong := &carillon.Error{Kind: carillon.InvalidArgument, Message: brief(usage.message)}
		return wire.ProblemToProto(wrong)
	}
	if known, ok := errors.AsType[*carillon.Error](err); ok {
		whole := *known
		if text := err.Error(); strings.Contains(text, known.Error()) {
			whole.Message = strings.Replace(text, known.Error(), known.Message, 1) // with what it was wrapped in
		}
		return wire.ProblemToProto(&whole)
	}
	problem := wire.ProblemToProto(&carillon.Error{Message: brief(err.Error())})
	problem.Code = failed
	if errors.Is(err, errNotYet) {
		problem.Code = carillon.DeadlineExceeded.String()
	}
	return problem
}

// errorWords returns an error for people, with what it was wrapped in.
func errorWords(err error) string {
	text := err.Error()
	known, ok := errors.AsType[*carillon.Error](err)
	switch {
	case !ok:
		return text
	case strings.Contains(text, known.Error()):
		return strings.Replace(text, known.Error(), sentence(known), 1)
	}
	return sentence(known)
}

// usageCode returns the exit code of a wrong command line. That of Dapr's own scheduler is the code of any
// failure, and what starts one in the place of the other may look at it.
func usageCode(cmd *cobra.Command) int {
	if cmd.Name() == daprCommand {
		return exitFailed
	}
	return exitUsage
}

// sentence formats the error for people: the field if there is one, and the message.
func sentence(e *carillon.Error) string {
	text := e.Message
	if e.Field != "" {
		text = e.Field + ": " + text
	}
	if e.Unknown {
		text += " (the change may have been made: look before you repeat it)"
	}
	return text
}

// exitCode returns the exit code of an error.
func exitCode(err error) int {
	if _, is := errors.AsType[unexamined](err); is || errors.Is(err, errNotYet) {
		return exitUnknown
	}
	switch carillon.KindOf(err) {
	case carillon.InvalidArgument:
		return exitUsage
	case carillon.NotFound:
		return exitNotFound
	default:
		return exitFailed
	}
}
