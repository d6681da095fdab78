package carillon

// Target is where runs are delivered: exactly one field is set.
type Target struct {
	Worker *WorkerTarget
	HTTP   *HTTPTarget
	Kafka  *KafkaTarget
	AMQP   *AMQPTarget
	NATS   *NATSTarget
	Redis  *RedisTarget
	Exec   *ExecTarget
	Dapr   *DaprTarget
}

// WorkerTarget delivers to a worker connected for the queue.
type WorkerTarget struct {
	Queue string
}

// HTTPTarget delivers by an HTTP request with the payload as its body.
type HTTPTarget struct {
	URL     string
	Method  string            // default POST
	Headers map[string]string // in addition to those that Carillon sets
}

// KafkaTarget delivers a record. Clusters are named in the server's configuration.
type KafkaTarget struct{ Cluster, Topic, Key string }

// AMQPTarget delivers a message. Brokers are named in the server's configuration.
type AMQPTarget struct{ Broker, Exchange, RoutingKey string }

// NATSTarget delivers a message. Servers are named in the server's configuration.
type NATSTarget struct{ Server, Subject string }

// RedisTarget delivers a stream entry. Servers are named in the server's configuration.
type RedisTarget struct{ Server, Stream string }

// ExecTarget runs an artifact on an agent.
type ExecTarget struct {
	Artifact   string
	SHA256     string
	Entrypoint string
	Args       []string
	Env        map[string]string
}

// WorkerQueue returns a worker target.
func WorkerQueue(queue string) Target { return Target{Worker: &WorkerTarget{Queue: queue}} }

// HTTP returns an HTTP target with the default method, POST.
func HTTP(url string) Target { return Target{HTTP: &HTTPTarget{URL: url}} }

// Kind returns the set target's name in the API ("worker", "http", …), or "" if none is set.
func (t Target) Kind() string {
	switch {
	case t.Worker != nil:
		return "worker"
	case t.HTTP != nil:
		return "http"
	case t.Kafka != nil:
		return "kafka"
	case t.AMQP != nil:
		return "amqp"
	case t.NATS != nil:
		return "nats"
	case t.Redis != nil:
		return "redis"
	case t.Exec != nil:
		return "exec"
	case t.Dapr != nil:
		return "dapr"
	}
	return ""
}

// count returns how many fields are set.
func (t Target) count() int {
	n := 0
	for _, set := range [...]bool{
		t.Worker != nil, t.HTTP != nil, t.Kafka != nil, t.AMQP != nil, t.NATS != nil, t.Redis != nil, t.Exec != nil,
		t.Dapr != nil,
	} {
		if set {
			n++
		}
	}
	return n
}
