{{- define "carillon.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- /* At most 40 characters: pods and volumes have longer names. */}}
{{- define "carillon.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains (include "carillon.name" .) .Release.Name }}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "carillon.name" .) | trunc 40 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "carillon.selector" -}}
app.kubernetes.io/name: {{ include "carillon.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "carillon.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{ include "carillon.selector" . }}
{{- end }}

{{- define "carillon.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "carillon.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "carillon.kind" -}}
{{- if eq .Values.store.kind "url" }}Deployment{{ else }}StatefulSet{{ end }}
{{- end }}

{{- /* What a schema cannot say well: values that need each other. A node would refuse most of them, too, but only when it starts. */}}
{{- define "carillon.check" -}}
{{- $v := .Values }}
{{- $kind := $v.store.kind }}
{{- $replicas := int $v.replicas }}
{{- if and (eq $kind "embedded") (gt $replicas 1) }}
{{- fail (printf "replicas: %d: the embedded store has one node; give 1, or another store.kind" $replicas) }}
{{- end }}
{{- if and (eq $kind "etcd") (not (has $replicas (list 1 3 5))) }}
{{- fail (printf "replicas: %d: members of etcd are 1, 3 or 5" $replicas) }}
{{- end }}
{{- if and $v.firstKeySecretName (ne $v.auth "keys") (not $v.configSecretName) }}
{{- fail "firstKeySecretName: it has no effect without auth: keys" }}
{{- end }}
{{- if and (eq $kind "url") (not $v.store.secretName) }}
{{- fail "store.secretName: which Secret has the URL of the store? For example kubectl create secret generic carillon-store --from-file=url" }}
{{- end }}
{{- if and (ne $kind "url") $v.store.secretName }}
{{- fail (printf "store.secretName: store.kind is %s, which has no URL; give store.kind: url" $kind) }}
{{- end }}
{{- if and (not $v.insecure) (not $v.tls.secretName) }}
{{- fail "tls.secretName: give the Secret of a certificate, or insecure: true if the network keeps everybody else out" }}
{{- end }}
{{- if and $v.insecure $v.tls.secretName (or $v.tls.clientCA (eq $v.auth "keys")) }}
{{- fail "insecure: it has no effect with tls.secretName and tls.clientCA or auth: keys; leave it out" }}
{{- end }}
{{- if and (not $v.insecure) (not $v.tls.clientCA) (ne $v.auth "keys") }}
{{- fail "tls.clientCA: without it, and without auth: keys, anybody may do everything; give one of them, or insecure: true" }}
{{- end }}
{{- if and $v.tls.peerName (not $v.tls.secretName) }}
{{- fail "tls.peerName: it has no effect without tls.secretName" }}
{{- end }}
{{- if and (not $v.serviceMonitor.enabled) (or $v.serviceMonitor.tlsConfig $v.serviceMonitor.authorization $v.serviceMonitor.labels) }}
{{- fail "serviceMonitor: its values have no effect without serviceMonitor.enabled" }}
{{- end }}
{{- if and (not $v.tls.secretName) $v.serviceMonitor.tlsConfig }}
{{- fail "serviceMonitor.tlsConfig: it has no effect without tls.secretName" }}
{{- end }}
{{- if and (not $v.serviceAccount.create) $v.serviceAccount.annotations }}
{{- fail "serviceAccount.annotations: they have no effect without serviceAccount.create" }}
{{- end }}
{{- end }}

{{- /* The store of a node, for those that are no URL in a Secret. The folder is below the volume's, which has files of its own. */}}
{{- define "carillon.store" -}}
{{- if eq .Values.store.kind "embedded" -}}
pebble:/var/lib/carillon/store
{{- else -}}
etcd-embed:/var/lib/carillon/store?listen=0.0.0.0:2380
{{- if .Values.tls.secretName }}&sslrootcert=/etc/carillon/tls/ca.crt&sslcert=/etc/carillon/tls/tls.crt&sslkey=/etc/carillon/tls/tls.key{{ end }}
{{- end }}
{{- end }}

{{- /* All members of etcd, by the names of their pods. */}}
{{- define "carillon.peers" -}}
{{- $name := include "carillon.fullname" . }}
{{- $peers := list }}
{{- range $i := until (int .Values.replicas) }}
{{- $peers = append $peers (printf "%s-%d=%s-%d.%s-nodes.%s.svc" $name $i $name $i $name $.Release.Namespace) }}
{{- end }}
{{- join "," $peers }}
{{- end }}

{{- /* A value as text: numbers of JSON are floats, and a large one would be written with an exponent. */}}
{{- define "carillon.text" -}}
{{- if kindIs "slice" . }}{{ join "," . }}
{{- else if kindIs "float64" . }}{{ int64 . }}
{{- else }}{{ . }}
{{- end }}
{{- end }}
