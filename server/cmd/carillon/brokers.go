package main

import (
	"errors"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/dispatch/broker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/amqp"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/kafka"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/natsbroker"
	"github.com/carillonhq/carillon/server/internal/dispatch/broker/redisbroker"
	"github.com/carillonhq/carillon/server/internal/server"
)

// brokerClients make the clients of the kinds of brokers that runs can be sent to. A kind that is not here is
// refused by name, in jobs and in the file of --brokers.
var brokerClients = map[string]broker.New{
	"kafka": func(s broker.Settings) (broker.Client, error) { return kafka.New(kafkaOptions(s)) },
	"amqp": func(s broker.Settings) (broker.Client, error) {
		o, err := amqpOptions(s)
		if err != nil {
			return nil, err
		}
		return amqp.New(o)
	},
	"nats":  func(s broker.Settings) (broker.Client, error) { return natsbroker.New(natsOptions(s)) },
	"redis": func(s broker.Settings) (broker.Client, error) { return redisbroker.New(redisOptions(s)) },
}

// brokerSources make what takes messages of the kinds of brokers that commands can come from.
var brokerSources = map[string]broker.NewSource{
	"kafka": func(s broker.Settings, of broker.Subscription) (broker.Source, error) {
		return kafka.NewSource(kafkaOptions(s), of)
	},
	"amqp": func(s broker.Settings, of broker.Subscription) (broker.Source, error) {
		o, err := amqpOptions(s)
		if err != nil {
			return nil, err
		}
		return amqp.NewSource(o, of)
	},
	"nats": func(s broker.Settings, of broker.Subscription) (broker.Source, error) {
		return natsbroker.NewSource(natsOptions(s), of)
	},
	"redis": func(s broker.Settings, of broker.Subscription) (broker.Source, error) {
		return redisbroker.NewSource(redisOptions(s), of)
	},
}

// addBrokers adds the flag --brokers.
func addBrokers(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "brokers", "",
		"YAML `file` that names the message brokers that runs may be sent to, and commands come from; read again when it changes, and "+
			"on SIGHUP")
}

// addSecrets adds the flag --secrets.
func addSecrets(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "secrets", "",
		"YAML `file` that names the secrets that headers of HTTP targets may refer to; read again when it changes, and on SIGHUP")
}

// useBrokers has a node send runs to the brokers of its file, if it has one, and take commands from them.
func useBrokers(c *server.Config) {
	c.Targets.Brokers.Clients, c.Targets.Brokers.Sources = brokerClients, brokerSources
	if c.Targets.Brokers.File != "" {
		c.Feeds = append(c.Feeds, takeMessages)
	}
}

func natsOptions(s broker.Settings) natsbroker.Options {
	return natsbroker.Options{Addresses: s.Addresses, TLS: s.TLS, User: s.User, Password: s.Password,
		Credentials: s.Credentials, Core: s.Core}
}

func redisOptions(s broker.Settings) redisbroker.Options {
	return redisbroker.Options{Addresses: s.Addresses, TLS: s.TLS, User: s.User, Password: s.Password,
		Database: s.Database, MaxLength: s.MaxLength}
}

func kafkaOptions(s broker.Settings) kafka.Options {
	return kafka.Options{Addresses: s.Addresses, TLS: s.TLS, Mechanism: strings.ToUpper(s.SASL), User: s.User,
		Password: s.Password, MaxMessage: s.MaxMessage}
}

// amqpOptions are those of who logs in by password, or by the certificate of its TLS.
func amqpOptions(s broker.Settings) (amqp.Options, error) {
	o := amqp.Options{Addresses: s.Addresses, TLS: s.TLS, VirtualHost: s.VirtualHost, Username: s.User,
		Password: s.Password, MaxMessageBytes: s.MaxMessage}
	if s.User == "" {
		if s.TLS == nil || len(s.TLS.Certificates) == 0 {
			return o, errors.New("user: it is missing; give it with password_file, or give tls.cert_file to log in by certificate")
		}
		o.Mechanism = amqp.External
	}
	return o, nil
}

// reloadFiles has a node read the files that it follows again on SIGHUP, until end is called.
func reloadFiles(c *server.Config) (end func()) {
	var all []chan os.Signal
	on := func(file string) <-chan os.Signal {
		if file == "" {
			return nil
		}
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGHUP)
		all = append(all, asked)
		return asked
	}
	t := &c.Targets
	t.Brokers.Reload, t.Secrets.Reload = on(t.Brokers.File), on(t.Secrets.File)
	c.Encryption.Reload = on(c.Encryption.Keys)
	return func() {
		for _, asked := range all {
			signal.Stop(asked)
		}
	}
}
