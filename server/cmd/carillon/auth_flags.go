package main

import (
	"github.com/spf13/pflag"

	"github.com/carillonhq/carillon/server/internal/server"
)

// addAuth adds the flags about who callers are.
func addAuth(flags *pflag.FlagSet, c *server.Config) {
	flags.StringVar(&c.Auth, "auth", "",
		"how callers prove who they are, one `way` or several with commas between: keys, API keys that carillon key makes; oidc, tokens of "+
			"--oidc-issuer; certificates, client certificates; or none: they do not, and may do everything; default none, which is refused on "+
			"a store that has keys")
	flags.StringVar(&c.BootstrapKeyFile, "bootstrap-key-file", "",
		"`file` with an API key, as carillon key generate makes it, which becomes the first one, an admin of all namespaces, if the store "+
			"has none; otherwise it is ignored. Others than the file's owner and group must not be able to read it")
	flags.StringVar(&c.AuthRules, "auth-rules", "",
		"YAML `file` that says what is granted to callers with a token or a certificate; read again when it changes")
	flags.StringVar(&c.OIDC.Issuer, "oidc-issuer", "",
		"`url` of the OpenID Connect issuer whose tokens (JWT) are taken, as they name it; https, but on this machine")
	flags.StringVar(&c.OIDC.Audience, "oidc-audience", "", "`audience` that tokens must be for (their claim aud)")
}
