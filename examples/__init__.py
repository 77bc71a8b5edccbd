"""Programs of the gallery, the demo (`demo`), and the published models that it runs (`models`)."""
