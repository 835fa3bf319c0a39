// Package oauth2 has the console's providers.
package oauth2

type (
	ProviderConfig struct {
		URL, DisplayName, ClientID, ClientSecret, HMACSalt, HMACPassphrase, Scopes, RedirectCallback, EndSessionEndpoint string
		Userinfo, RedirectCallbackDynamic                                                                                bool
		RoleArn                                                                                                          string
	}
	OpenIDPCfg map[string]ProviderConfig
)
