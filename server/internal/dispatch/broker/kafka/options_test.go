package kafka_test

import (
	"strings"
	"testing"
	"time"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
)

// Each wrong option is told by its name.
func TestOptions(t *testing.T) {
	good := kafka.Options{Addresses: []string{"kafka-1.example:9092"}}
	for want, change := range map[string]func(*kafka.Options){
		"":                           func(*kafka.Options) {},
		"addresses: none":            func(o *kafka.Options) { o.Addresses = nil },
		`addresses: "kafka" is not`:  func(o *kafka.Options) { o.Addresses = []string{"kafka"} },
		`addresses: ":9092" is not`:  func(o *kafka.Options) { o.Addresses = []string{":9092"} },
		`the port of "k:0"`:          func(o *kafka.Options) { o.Addresses = []string{"k:0"} },
		"mechanism: it is missing":   func(o *kafka.Options) { o.User = "u" },
		"user: it is missing":        func(o *kafka.Options) { o.Mechanism = kafka.Plain },
		"password: it is missing":    func(o *kafka.Options) { o.Mechanism, o.User = kafka.Plain, "u" },
		`mechanism: "OAUTH" is none`: func(o *kafka.Options) { o.Mechanism, o.User, o.Password = "OAUTH", "u", "p" },
		"max message: 1000 is not":   func(o *kafka.Options) { o.MaxMessage = 1000 },
		"connect within: -1s":        func(o *kafka.Options) { o.ConnectWithin = -time.Second },
		"send within: 1ms":           func(o *kafka.Options) { o.SendWithin = time.Millisecond },
		"answer within: 1s":          func(o *kafka.Options) { o.AnswerWithin = time.Second },
	} {
		o := good
		change(&o)
		c, err := kafka.New(o)
		if want == "" {
			must(t, err)
			must(t, c.Close())
		} else if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one with %q", err, want)
		}
	}
}

// All mechanisms are taken.
func TestMechanisms(t *testing.T) {
	for _, m := range []string{kafka.Plain, kafka.ScramSHA256, kafka.ScramSHA512} {
		client(t, kafka.Options{Addresses: []string{"k:9092"}, Mechanism: m, User: "u", Password: "p"})
	}
}
