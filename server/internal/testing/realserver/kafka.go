package realserver

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Kafka is a broker of Apache Kafka that is its own controller. Its program is Java and the jars that
// tools/kafka/pom.xml names, in the folder CARILLON_KAFKA, or carillon/kafka of the user's cache.
//
// It has three listeners. Who comes by the first two, without a login, may do everything.
type Kafka struct {
	Port   int    // without TLS
	Linked int    // the same, for clients that come by a link
	Behind string // what clients of Linked are told to connect to; default itself
	Secure int    // with TLS and SASL
	Folder string // of its data

	controller int      // its port; 0: another broker is the controller
	brokers    []*Kafka // of the cluster, of which the first one is the controller
	daemon
}

// The users of a [Kafka] who log in, by PLAIN or SCRAM-SHA-256. What they may do is said by [Kafka.Allow].
const (
	KafkaWriter   = "writer"
	KafkaStranger = "stranger"
	KafkaPassword = "a-secret"
)

// NewKafka prepares a Kafka, which [Kafka.Up] starts and which ends with the test. It shows a certificate,
// which is in PEM files. Topics are not made by themselves.
func NewKafka(t testing.TB, certificate, key string) *Kafka {
	t.Helper()
	java, jars := Binary(t, "java"), jars(t, "Kafka", "kafka_*.jar")
	k := &Kafka{Port: Port(t), Linked: Port(t), Secure: Port(t), Folder: Folder(t, ""), controller: Port(t)}
	k.brokers = []*Kafka{k}
	for name, text := range map[string]string{"keys.pem": read(t, key) + read(t, certificate)} {
		write(t, filepath.Join(k.Folder, name), text)
	}
	k.program = Program{Path: java, Folder: k.Folder, Args: []string{"-Xms128m", "-Xmx512m", "-XX:+UseSerialGC",
		"-XX:TieredStopAtLevel=1", "-cp", filepath.Join(jars, "*"), "kafka.Kafka", k.settingsFile()}}
	return k
}

// StartKafkaCluster starts a cluster of so many brokers, which ends with the test. The first one is the
// controller: the others can be killed in any number.
func StartKafkaCluster(t testing.TB, brokers int) []*Kafka {
	t.Helper()
	certificate, key, _ := Authority(t)
	all := make([]*Kafka, brokers)
	for i := range all {
		if all[i] = NewKafka(t, certificate, key); i > 0 {
			all[i].controller = 0
		}
	}
	for _, k := range all {
		k.brokers = all
		k.format(t)
		k.process = Start(t, k.program)
	}
	for _, k := range all {
		k.ready(t)
	}
	return all
}

// id is the broker's in its cluster.
func (k *Kafka) id() int { return 1 + slices.Index(k.brokers, k) }

func read(t testing.TB, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (k *Kafka) settingsFile() string { return filepath.Join(k.Folder, "server.properties") }

// format makes the data folder, with the passwords of those who log in by SCRAM.
func (k *Kafka) format(t testing.TB) {
	t.Helper()
	at := func(name string, port int) string { return fmt.Sprintf("%s://127.0.0.1:%d", name, port) }
	listener := "listener.name.secure."
	roles, listeners := "broker", []string{at("OPEN", k.Port), at("LINKED", k.Linked), at("SECURE", k.Secure)}
	if k.controller != 0 {
		roles, listeners = "broker,controller", append(listeners, at("CONTROLLER", k.controller))
	}
	write(t, k.settingsFile(), strings.Join([]string{
		"process.roles=" + roles, fmt.Sprint("node.id=", k.id()),
		fmt.Sprint("controller.quorum.voters=1@127.0.0.1:", k.brokers[0].controller),
		"controller.listener.names=CONTROLLER", "inter.broker.listener.name=OPEN",
		"listeners=" + strings.Join(listeners, ","),
		"advertised.listeners=" + strings.Join([]string{at("OPEN", k.Port),
			"LINKED://" + cmp.Or(k.Behind, local(k.Linked)), at("SECURE", k.Secure)}, ","),
		"listener.security.protocol.map=CONTROLLER:PLAINTEXT,OPEN:PLAINTEXT,LINKED:PLAINTEXT,SECURE:SASL_SSL",
		"log.dirs=" + filepath.Join(k.Folder, "data"), "auto.create.topics.enable=false",
		"offsets.topic.replication.factor=1", "transaction.state.log.replication.factor=1", "num.partitions=1",
		"group.initial.rebalance.delay.ms=0",
		// a broker that was killed comes back soon
		"broker.session.timeout.ms=1000", "broker.heartbeat.interval.ms=100",
		"authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
		"super.users=User:ANONYMOUS",
		listener + "ssl.keystore.type=PEM",
		listener + "ssl.keystore.location=" + filepath.Join(k.Folder, "keys.pem"),
		listener + "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256",
		listener + "plain.sasl.jaas.config=" + "org.apache.kafka.common.security.plain.PlainLoginModule required " +
			fmt.Sprintf("user_%s=%q user_%s=%[2]q;", KafkaWriter, KafkaPassword, KafkaStranger),
		listener + "scram-sha-256.sasl.jaas.config=" +
			"org.apache.kafka.common.security.scram.ScramLoginModule required;",
	}, "\n")+"\n")
	main := len(k.program.Args) - 2
	p := k.program
	p.Args = append(append([]string{}, p.Args[:main]...), "kafka.tools.StorageTool", "format", "--cluster-id",
		"Y2FyaWxsb24tdGVzdHMtMA", "--config", k.settingsFile(), "--add-scram",
		fmt.Sprintf("SCRAM-SHA-256=[name=%s,password=%s]", KafkaWriter, KafkaPassword))
	Run(t, p)
}

// Up starts the broker, again after Crash or Down too, and waits until it serves.
func (k *Kafka) Up(t testing.TB) {
	t.Helper()
	if _, err := os.Stat(k.settingsFile()); err != nil {
		k.format(t)
	}
	k.process = Start(t, k.program)
	k.ready(t)
}

// ready waits until it serves.
func (k *Kafka) ready(t testing.TB) {
	t.Helper()
	k.process.Ready(t, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", k.Address())
		if err != nil {
			return err
		}
		if err := conn.Close(); err != nil {
			return err
		}
		c, err := kgo.NewClient(kgo.SeedBrokers(k.Address()))
		if err != nil {
			return err
		}
		defer c.Close()
		answer, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, c)
		if err == nil && !slices.ContainsFunc(answer.Brokers, func(b kmsg.MetadataResponseBroker) bool {
			return int(b.NodeID) == k.id()
		}) {
			err = fmt.Errorf("it knows %d brokers, and not itself", len(answer.Brokers))
		}
		return err
	})
}

// Address is where clients connect to that neither log in nor come by a link.
func (k *Kafka) Address() string { return local(k.Port) }

// SecureAddress is where clients connect to that log in.
func (k *Kafka) SecureAddress() string { return local(k.Secure) }

// LinkedAddress is where a link leads.
func (k *Kafka) LinkedAddress() string { return local(k.Linked) }

func local(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }

// ask has a client of its own do something.
func (k *Kafka) ask(t testing.TB, request func(ctx context.Context, c *kgo.Client) error) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(k.Address()))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := request(ctx, c); err != nil {
		t.Fatal(err)
	}
}

// Topic makes a topic of so many partitions. Settings are of it, "name=value".
func (k *Kafka) Topic(t testing.TB, name string, partitions int32, settings ...string) {
	t.Helper()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, int16(len(k.brokers))
	for _, s := range settings {
		of, value, _ := strings.Cut(s, "=")
		setting := kmsg.NewCreateTopicsRequestTopicConfig()
		setting.Name, setting.Value = of, &value
		topic.Configs = append(topic.Configs, setting)
	}
	k.ask(t, func(ctx context.Context, c *kgo.Client) error {
		r := kmsg.NewPtrCreateTopicsRequest()
		r.Topics = append(r.Topics, topic)
		answer, err := r.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	})
}

// Drop deletes a topic.
func (k *Kafka) Drop(t testing.TB, name string) {
	t.Helper()
	k.ask(t, func(ctx context.Context, c *kgo.Client) error {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.TopicNames = []string{name}
		topic := kmsg.NewDeleteTopicsRequestTopic()
		topic.Topic = &name
		r.Topics = append(r.Topics, topic)
		answer, err := r.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
	})
}

// Allow lets a user do something with a topic.
func (k *Kafka) Allow(t testing.TB, user, topic string, what kmsg.ACLOperation) {
	t.Helper()
	k.allow(t, user, kmsg.ACLResourceTypeTopic, topic, what)
}

// AllowGroup lets a user be a member of a consumer group.
func (k *Kafka) AllowGroup(t testing.TB, user, group string) {
	t.Helper()
	k.allow(t, user, kmsg.ACLResourceTypeGroup, group, kmsg.ACLOperationRead)
}

func (k *Kafka) allow(t testing.TB, user string, of kmsg.ACLResourceType, name string,
	what kmsg.ACLOperation) {
	t.Helper()
	k.ask(t, func(ctx context.Context, c *kgo.Client) error {
		r := kmsg.NewPtrCreateACLsRequest()
		rule := kmsg.NewCreateACLsRequestCreation()
		rule.ResourceType, rule.ResourceName = of, name
		rule.ResourcePatternType, rule.Principal, rule.Host = kmsg.ACLResourcePatternTypeLiteral, "User:"+user, "*"
		rule.Operation, rule.PermissionType = what, kmsg.ACLPermissionTypeAllow
		r.Creations = append(r.Creations, rule)
		answer, err := r.RequestWith(ctx, c)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(answer.Results[0].ErrorCode)
	})
}
