{{- define "carillon.pod" -}}
{{- $v := .Values }}
{{- $scheme := ternary "HTTPS" "HTTP" (ne $v.tls.secretName "") -}}
metadata:
  labels:
    {{- include "carillon.selector" . | nindent 4 }}
    {{- with $v.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  {{- with $v.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "carillon.serviceAccount" . }}
  automountServiceAccountToken: false
  enableServiceLinks: false # CARILLON_… of a Service is not a setting
  {{- with $v.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  # More than --drain-grace and the 20 s that may come after it. SIGTERM is all that a node needs to leave in order: no preStop.
  terminationGracePeriodSeconds: {{ add $v.drainGraceSeconds 30 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile: {type: RuntimeDefault}
  {{- with $v.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $v.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if $v.topologySpreadConstraints }}
    {{- toYaml $v.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
    - maxSkew: 1
      topologyKey: {{ . }}
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "carillon.selector" $ | nindent 10 }}
    {{- end }}
    {{- end }}
  containers:
    - name: carillon
      image: {{ $v.image.repository }}{{ if $v.image.digest }}@{{ $v.image.digest }}{{ else }}:{{ $v.image.tag }}{{ end }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      args: [serve]
      env:
        {{- if eq $v.store.kind "url" }}
        - name: CARILLON_STORE
          valueFrom:
            secretKeyRef: {name: {{ $v.store.secretName | quote }}, key: {{ $v.store.secretKey | quote }}}
        {{- else }}
        - {name: CARILLON_STORE, value: {{ include "carillon.store" . | quote }}}
        {{- end }}
        {{- if eq $v.store.kind "etcd" }}
        - {name: CARILLON_PEERS, value: {{ include "carillon.peers" . | quote }}}
        {{- end }}
        - name: CARILLON_NODE_NAME
          valueFrom:
            fieldRef: {fieldPath: metadata.name}
        - name: CARILLON_ADVERTISE
          valueFrom:
            fieldRef: {fieldPath: status.podIP}
        - {name: CARILLON_GRPC, value: ":7070"}
        - {name: CARILLON_HTTP, value: ":7080"}
        {{- with $v.auth }}
        - {name: CARILLON_AUTH, value: {{ . | quote }}}
        {{- end }}
        {{- if $v.firstKeySecretName }}
        - {name: CARILLON_BOOTSTRAP_KEY_FILE, value: /etc/carillon/first-key/key}
        {{- end }}
        {{- if $v.insecure }}
        - {name: CARILLON_INSECURE, value: "true"}
        {{- end }}
        {{- if $v.tls.secretName }}
        - {name: CARILLON_TLS_CERT, value: /etc/carillon/tls/tls.crt}
        - {name: CARILLON_TLS_KEY, value: /etc/carillon/tls/tls.key}
        {{- if $v.tls.clientCA }}
        - {name: CARILLON_TLS_CLIENT_CA, value: /etc/carillon/tls/ca.crt}
        {{- end }}
        {{- if ne $v.store.kind "embedded" }}
        - {name: CARILLON_TLS_PEER_CA, value: /etc/carillon/tls/ca.crt}
        - name: CARILLON_TLS_PEER_NAME
          value: {{ default (printf "%s.%s.svc" (include "carillon.fullname" .) .Release.Namespace) $v.tls.peerName | quote }}
        {{- end }}
        {{- end }}
        {{- if $v.configSecretName }}
        - {name: CARILLON_CONFIG, value: /etc/carillon/config/carillon.yaml}
        {{- end }}
        {{- if $v.brokersSecretName }}
        - {name: CARILLON_BROKERS, value: /etc/carillon/brokers/brokers.yaml}
        {{- end }}
        {{- if $v.encryptionSecretName }}
        - {name: CARILLON_ENCRYPTION_KEYS, value: /etc/carillon/encryption/keys.json}
        {{- end }}
        {{- if $v.secretsSecretName }}
        - {name: CARILLON_SECRETS, value: /etc/carillon/secrets/secrets.yaml}
        {{- end }}
        - {name: CARILLON_DRAIN_GRACE, value: {{ printf "%ds" (int $v.drainGraceSeconds) | quote }}}
        {{- if not (hasKey $v.settings "log_format") }}
        - {name: CARILLON_LOG_FORMAT, value: json}
        {{- end }}
        # Names with a dot are refused that are not listed: see --host.
        {{- $name := printf "%s.%s" (include "carillon.fullname" .) .Release.Namespace }}
        - {name: CARILLON_HOST, value: {{ concat (list $name (printf "%s.svc" $name)) (default list $v.settings.host) | uniq | join "," | quote }}}
        {{- range $key, $value := omit $v.settings "host" }}
        - {name: CARILLON_{{ upper $key }}, value: {{ include "carillon.text" $value | quote }}}
        {{- end }}
        - {name: GOMEMLIMIT, value: {{ $v.goMemLimit | quote }}}
        {{- with $v.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      ports:
        - {name: grpc, containerPort: 7070}
        - {name: http, containerPort: 7080}
        {{- if eq $v.store.kind "etcd" }}
        - {name: etcd-clients, containerPort: 2379}
        - {name: etcd-peers, containerPort: 2380}
        {{- end }}
      # A large folder takes its time to be opened.
      startupProbe:
        httpGet: {path: /livez, port: http, scheme: {{ $scheme }}}
        periodSeconds: 2
        failureThreshold: 150
      livenessProbe:
        httpGet: {path: /livez, port: http, scheme: {{ $scheme }}}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: http, scheme: {{ $scheme }}}
        periodSeconds: 2
        timeoutSeconds: 2
        failureThreshold: 2
      resources:
        {{- toYaml $v.resources | nindent 8 }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        {{- if ne $v.store.kind "url" }}
        - {name: data, mountPath: /var/lib/carillon}
        {{- end }}
        {{- range $name, $secret := dict "brokers" $v.brokersSecretName "config" $v.configSecretName "encryption" $v.encryptionSecretName "first-key" $v.firstKeySecretName "secrets" $v.secretsSecretName "tls" $v.tls.secretName }}
        {{- if $secret }}
        - {name: {{ $name }}, mountPath: /etc/carillon/{{ $name }}, readOnly: true}
        {{- end }}
        {{- end }}
  volumes:
    - name: tmp # payloads on their way to payload_store: 32 of the largest, twice with encryption
      emptyDir: {sizeLimit: 4Gi}
    {{- range $name, $secret := dict "brokers" $v.brokersSecretName "config" $v.configSecretName "encryption" $v.encryptionSecretName "first-key" $v.firstKeySecretName "secrets" $v.secretsSecretName "tls" $v.tls.secretName }}
    {{- if $secret }}
    - name: {{ $name }}
      secret: {secretName: {{ $secret | quote }}, defaultMode: 0440}
    {{- end }}
    {{- end }}
{{- end }}
