/* SPDX-License-Identifier: Apache-2.0 */
/* The guest agent's program as read-only data; AGENT_PATH comes from the build. */
	.section .rodata
	.global agent_blob
	.hidden agent_blob
	.type agent_blob, @object
	.balign 16
agent_blob:
	.incbin AGENT_PATH
	.global agent_blob_end
	.hidden agent_blob_end
agent_blob_end:
	.byte 0
	.size agent_blob, . - agent_blob
	.section .note.GNU-stack, "", @progbits
