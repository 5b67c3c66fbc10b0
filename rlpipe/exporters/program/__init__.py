"""A traced policy as a short list of plain operations, which small code generators can write in any language."""
