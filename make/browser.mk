# Pages in a browser, which nothing else here needs: Chromium or Chrome of the system, driven by
# Playwright.
.PHONY: test-browser browser

BROWSER ?= $(firstword $(foreach name,chromium chromium-browser google-chrome chrome,$(shell command -v $(name))))

test-browser: browser docs $(STAMPS)/extra-test $(STAMPS)/extra-browser ## the server's page and the site in Chromium, at two widths, light and dark
	PPLCONV_TEST_BROWSER="$(BROWSER)" PPLCONV_TEST_SITE=$(SITE) \
		$(BIN)/pytest -q -p no:cacheprovider tests/browser $(ARGS)

# First, for the site takes minutes.
browser:
	@[ -x "$(BROWSER)" ] || { echo "no browser is found: install one (Debian: apt-get install chromium)," \
		"or name one: make test-browser BROWSER=/path/to/chrome" >&2; exit 1; }
