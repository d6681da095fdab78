package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillonhq/carillon"
	"github.com/carillonhq/carillon/client"
	"github.com/carillonhq/carillon/internal/wire"
)

// newWebhook returns the command `carillon webhook`.
func newWebhook(a app) *cobra.Command {
	return newGroup("webhook", "Addresses to which events of a namespace are sent", newWebhookPut(a),
		newWebhookList(a), newWebhookDelete(a))
}

// webhookPut holds the flags of `carillon webhook put`.
type webhookPut struct {
	connection
	hook    carillon.Webhook
	brokers jobFlags // that set the target at a broker of a job
	types   []string
	headers []string
}

// newWebhookPut returns the command `carillon webhook put`.
func newWebhookPut(a app) *cobra.Command {
	p := webhookPut{brokers: slices.DeleteFunc(brokerFlags(), func(f *jobFlag) bool {
		return f.name == "await-completion" // nobody completes an event
	})}
	cmd := &cobra.Command{
		Use:   "put NAME",
		Short: "Add a webhook to a namespace, or replace it",
		Long: "Add a webhook to the settings of a namespace, or replace the one of that name. Each event that it selects is sent as a\n" +
			"CloudEvent, by an HTTP request or to a broker, until the receiver has answered 2xx, or the broker has acknowledged it,\n" +
			"for about a day. `carillon run list --prefix " + carillon.EventJobs + "` shows how that went. An address that is\n" +
			"not public must be allowed by --allow-target of the nodes; brokers are those of their --brokers.",
		Example: `carillon webhook put ops --url https://example.com/hooks/carillon --type run.dead,job.paused,queue,node
carillon webhook put billing --url https://example.com/x --type run --prefix billing/ --header "Authorization=Bearer abc"
carillon webhook put stream --kafka events/carillon --type job,run,queue,node`,
		Args: arguments(1, 1),
		RunE: p.ask(a, p.put),
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&p.hook.URL, "url", "", "where events are sent; http or https")
	p.brokers.add(cmd)
	cmd.Flags().StringSliceVar(&p.types, "type", nil,
		"`types` of events, such as run.dead, or groups of them: job, run, queue, node; repeatable")
	cmd.Flags().StringVar(&p.hook.Prefix, "prefix", "",
		"only of jobs whose names begin so, and events that are about no job")
	cmd.Flags().StringArrayVar(&p.headers, "header", nil, "`name=value` of an HTTP header to send; repeatable")
	p.connection.add(cmd)
	check(cmd, func(*cobra.Command) error {
		var job carillon.Job
		if _, err := p.brokers.apply(cmd.Flags(), &job, nil); err != nil {
			return err
		}
		t := job.Target
		p.hook.Kafka, p.hook.AMQP, p.hook.NATS, p.hook.Redis = t.Kafka, t.AMQP, t.NATS, t.Redis
		switch {
		case p.hook.Target().Kind() == "":
			return usagef("--url is missing: where events are sent, such as https://example.com/hook; or give " +
				"--kafka, --amqp, --nats or --redis")
		case len(p.types) == 0:
			return usagef("--type is missing: types of events, such as run.dead, or groups of them: job, run, queue, node")
		}
		return nil
	})
	return cmd
}

// put puts the webhook among the others of the namespace.
func (p *webhookPut) put(ctx context.Context, node *client.Client, words []string) (answer, error) {
	p.hook.Name = words[0]
	for _, t := range p.types {
		p.hook.Types = append(p.hook.Types, carillon.EventType(strings.TrimSpace(t)))
	}
	for _, h := range p.headers {
		name, value, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return answer{}, usagef("--header: %q is not name=value", clip(h, 40))
		}
		if p.hook.Headers == nil {
			p.hook.Headers = map[string]string{}
		}
		p.hook.Headers[name] = value
	}
	ns, err := setNamespace(ctx, node, p.namespace, 0, func(ns *carillon.Namespace) error {
		if i := indexOfWebhook(ns, p.hook.Name); i >= 0 {
			ns.Webhooks[i] = p.hook
		} else {
			ns.Webhooks = append(ns.Webhooks, p.hook)
		}
		return nil
	})
	return webhooksAnswer(&ns), err
}

func indexOfWebhook(ns *carillon.Namespace, name string) int {
	return slices.IndexFunc(ns.Webhooks, func(w carillon.Webhook) bool { return w.Name == name })
}

// newWebhookList returns the command `carillon webhook list`.
func newWebhookList(a app) *cobra.Command {
	var c connection
	cmd := c.inNamespace(a, "list", "List the webhooks of a namespace",
		func(ctx context.Context, node *client.Client, _ []string) (answer, error) {
			ns, err := node.GetNamespace(ctx, c.namespace)
			return webhooksAnswer(&ns), err
		})
	cmd.Aliases = []string{"ls"}
	return cmd
}

// newWebhookDelete returns the command `carillon webhook delete`.
func newWebhookDelete(a app) *cobra.Command {
	var c connection
	cmd := c.inNamespace(a, "delete NAME", "Remove a webhook; what is on its way to it is still sent",
		func(ctx context.Context, node *client.Client, words []string) (answer, error) {
			ns, err := setNamespace(ctx, node, c.namespace, 0, func(ns *carillon.Namespace) error {
				i := indexOfWebhook(ns, words[0])
				if i < 0 {
					return carillon.Errorf(carillon.NotFound, "name", "namespace %q has no webhook %q", ns.Name,
						clip(words[0], 40))
				}
				ns.Webhooks = slices.Delete(ns.Webhooks, i, i+1)
				return nil
			})
			return webhooksAnswer(&ns), err
		})
	cmd.Aliases = []string{"rm"}
	return cmd
}

// webhooksAnswer lists the webhooks of a namespace.
func webhooksAnswer(ns *carillon.Namespace) answer {
	return answer{message: wire.NamespaceToProto(ns),
		text: table([]string{"NAME", "TARGET", "TYPES", "PREFIX", "HEADERS"}, ns.Webhooks, webhookRow)}
}

func webhookRow(w *carillon.Webhook) []string {
	types := make([]string, len(w.Types))
	for i, t := range w.Types {
		types[i] = string(t)
	}
	return []string{w.Name, hookTarget(w), strings.Join(types, ","), dash(w.Prefix),
		strconv.Itoa(len(w.Headers))}
}

// hookTarget describes where a webhook's events go, for people.
func hookTarget(w *carillon.Webhook) string { return cmp.Or(w.URL, targetText(w.Target())) }
