# The documentation site.  Warnings are errors: a name that leads nowhere, an example that fails, a
# page that nothing leads to.
.PHONY: docs docs-links

SITE := build/docs
SPHINX = $(BIN)/sphinx-build -c docs -W --keep-going -j auto

# Pages generated earlier must not survive: their names may be gone.
docs: $(STAMPS)/extra-docs ## build the site in build/docs; warnings are errors
	rm -rf $(SITE) docs/gallery docs/reference/generated docs/_charts
	PPLCONV_WISDOM=off $(SPHINX) -b html -d build/doctrees . $(SITE) $(ARGS)
	$(BIN)/python -m tools.site.links $(SITE)
	@echo "the site begins at $(SITE)/index.html"

docs-links: docs ## do links to other sites lead somewhere?  says so where there is no net
	rm -rf build/docs-links
	@# Sphinx takes a site that cannot be reached for a dead link; what it found is judged below.
	PPLCONV_WISDOM=off $(SPHINX) -b linkcheck -d build/doctrees . build/docs-links $(ARGS) || true
	$(BIN)/python -m tools.site.links $(SITE) --others build/docs-links/output.json
